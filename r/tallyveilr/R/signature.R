release_signature <- function(release) {
  require_release(release)
  signature_of(file.path(release$path, "manifest.json"))
}

# What the signature shows that `ssh-keygen -Y sign` put beside a file: "signed by" with the fingerprint of the key, as
# `ssh-keygen -l` prints it, "unsigned", or "signature does not fit". The form is PROTOCOL.sshsig of OpenSSH, and keys are
# Ed25519 (RFC 8709).
signature_of <- function(path) {
  place <- paste0(path, ".sig")
  if (!file.exists(place)) {
    return("unsigned")
  }
  if (file.access(place, 4) != 0) refuse("release-unreadable", place, " cannot be read. Ask who owns it for the right to.")
  signed <- parsed_signature(signature_bytes(place))
  if (!is.null(signed) && signature_fits(signed, readBin(path, "raw", file.size(path)))) {
    digest <- as.raw(unclass(openssl::sha256(signed$key)))
    return(paste0("signed by SHA256:", sub("=+$", "", openssl::base64_encode(digest))))
  }
  "signature does not fit"
}

# The bytes between the lines of a signature file; none where it is no such file. It has some hundred, and more than 64 KiB
# could only fill the memory. A pipe, which would be waited for, has the size 0.
signature_bytes <- function(place) {
  size <- file.size(place)
  if (dir.exists(place) || is.na(size) || size == 0 || size > 65536) {
    return(raw())
  }
  bytes <- readBin(place, "raw", size)
  text <- if (any(bytes == 0 | bytes > 127)) "" else rawToChar(bytes)
  lines <- "(?s)^\\s*-----BEGIN SSH SIGNATURE-----(.*)-----END SSH SIGNATURE-----\\s*$"
  coded <- if (grepl(lines, text, perl = TRUE)) gsub("\\s", "", sub(lines, "\\1", text, perl = TRUE), perl = TRUE) else ""
  if (nchar(coded) %% 4 != 0 || !grepl("^[A-Za-z0-9+/]*={0,2}$", coded, perl = TRUE)) {
    return(raw())
  }
  openssl::base64_decode(coded)
}

# The parts of a signature; NULL where the bytes are of another form.
parsed_signature <- function(bytes) {
  begin <- c(charToRaw("SSHSIG"), as.raw(c(0, 0, 0, 1)))
  if (!identical(utils::head(bytes, 10), begin)) {
    return(NULL)
  }
  parts <- byte_strings(bytes[-(1:10)], c("key", "namespace", "reserved", "hash", "signature"))
  key <- byte_strings(parts$key, c("kind", "public"))
  signature <- byte_strings(parts$signature, c("kind", "raw"))
  if (is.null(key) || is.null(signature)) NULL else c(parts, list(of_key = key, of_signature = signature))
}

# Whether a signature is one of a content, made for Tallyveil.
signature_fits <- function(signed, content) {
  says <- function(part, text) identical(part, charToRaw(text))
  digest <- if (says(signed$hash, "sha512")) openssl::sha512 else if (says(signed$hash, "sha256")) openssl::sha256
  ed25519 <- says(signed$of_key$kind, "ssh-ed25519") && says(signed$of_signature$kind, "ssh-ed25519")
  if (!ed25519 || !says(signed$namespace, "tallyveil") || is.null(digest)) {
    return(FALSE)
  }
  # What is signed holds the digest of the file and its purpose, so that it fits nothing else.
  covered <- list(signed$namespace, signed$reserved, signed$hash, as.raw(unclass(digest(content))))
  message <- c(charToRaw("SSHSIG"), unlist(lapply(covered, byte_string)))
  # openssl answers with an error where a signature does not fit, or where it or the key has another length.
  tryCatch(
    isTRUE(openssl::ed25519_verify(message, signed$of_signature$raw, openssl::read_ed25519_pubkey(signed$of_key$public))),
    error = function(error) FALSE
  )
}

# Bytes after their number, which has 4 bytes itself.
byte_string <- function(bytes) c(writeBin(length(bytes), raw(), size = 4, endian = "big"), bytes)

# The named strings of bytes that follow one another, and nothing after them; NULL where they are others.
byte_strings <- function(bytes, names) {
  strings <- list()
  for (name in names) {
    size <- if (length(bytes) < 4) Inf else sum(as.integer(bytes[1:4]) * 256^(3:0))
    if (length(bytes) - 4 < size) {
      return(NULL)
    }
    strings[[name]] <- bytes[seq_len(size) + 4]
    bytes <- utils::tail(bytes, -(4 + size))
  }
  if (length(bytes) > 0) NULL else strings
}
