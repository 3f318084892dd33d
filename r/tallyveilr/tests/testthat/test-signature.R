# A signature as ssh-keygen makes it, by a key of this test. `tests/system/test_r.py` of Tallyveil takes those of ssh-keygen.
signature_file <- function(path, key, namespace = "tallyveil", hash = "sha512", kind = "ssh-ed25519") {
  digest <- if (hash == "sha512") openssl::sha512 else openssl::sha256
  content <- digest(readBin(path, "raw", file.size(path)))
  parts <- list(charToRaw(namespace), raw(), charToRaw(hash), as.raw(unclass(content)))
  magic <- charToRaw("SSHSIG")
  strings <- function(...) unlist(lapply(list(...), byte_string))
  signed <- openssl::ed25519_sign(c(magic, unlist(lapply(parts, byte_string))), key)
  public <- strings(charToRaw(kind), as.list(key)$pubkey$data)
  bytes <- c(
    magic, as.raw(c(0, 0, 0, 1)),
    strings(public, parts[[1]], parts[[2]], parts[[3]], strings(charToRaw(kind), signed))
  )
  coded <- openssl::base64_encode(bytes, linebreaks = TRUE)
  text <- paste0("-----BEGIN SSH SIGNATURE-----\n", coded, "-----END SSH SIGNATURE-----\n")
  cat(text, file = paste0(path, ".sig"))
  paste0("SHA256:", sub("=+$", "", openssl::base64_encode(as.raw(unclass(openssl::sha256(public))))))
}

signed_release <- function(...) {
  folder <- copied("release")
  fingerprint <- signature_file(file.path(folder, "manifest.json"), openssl::ed25519_keygen(), ...)
  list(folder = folder, manifest = file.path(folder, "manifest.json"), fingerprint = fingerprint)
}

no_fit <- "signature does not fit"

test_that("a release says whose key signed it", {
  for (hash in c("sha512", "sha256")) {
    signed <- signed_release(hash = hash)
    release <- open_release(signed$folder, csv = example_folder("csv"))
    expect_identical(release_signature(release), paste("signed by", signed$fingerprint))
    expect_match(capture.output(print(release)), paste("signature: signed by", signed$fingerprint), fixed = TRUE, all = FALSE)
  }
  expect_identical(release_signature(example_release()), "unsigned")
  expect_error(release_signature("release"), class = "tallyveil_bad_argument")
})

test_that("a signature of something else does not fit", {
  signed <- signed_release()
  cat("\n", file = signed$manifest, append = TRUE)
  expect_identical(release_signature(open_release(signed$folder)), no_fit)
  expect_identical(signature_of(signed_release(namespace = "file")$manifest), no_fit)
  expect_identical(signature_of(signed_release(kind = "ssh-rsa")$manifest), no_fit)
  signed <- signed_release()
  invisible(signature_file(file.path(signed$folder, "plan.json"), openssl::ed25519_keygen()))
  file.copy(file.path(signed$folder, "plan.json.sig"), paste0(signed$manifest, ".sig"), overwrite = TRUE)
  expect_identical(signature_of(signed$manifest), no_fit)
})

test_that("what is no signature does not fit", {
  signed <- signed_release()
  place <- paste0(signed$manifest, ".sig")
  text <- read_text(place)
  bytes <- signature_bytes(place)
  armoured <- function(bytes) {
    paste0("-----BEGIN SSH SIGNATURE-----\n", openssl::base64_encode(bytes), "\n-----END SSH SIGNATURE-----\n")
  }
  others <- c(
    "", "x", "\u00fc", strrep("x", 70000), armoured(raw()), sub("SSH", "PGP", text), sub("=*\n-", "A\n-", text),
    vapply(c(3, 9, 12, 40, length(bytes) - 1), function(size) armoured(bytes[seq_len(size)]), ""), armoured(c(bytes, bytes[1]))
  )
  for (other in others) {
    cat(other, file = place)
    expect_identical(signature_of(signed$manifest), no_fit)
  }
  for (changed in seq(1, length(bytes), by = 7)) {
    cat(armoured(replace(bytes, changed, xor(bytes[[changed]], as.raw(1)))), file = place)
    expect_identical(signature_of(signed$manifest), no_fit)
  }
  cat(armoured(bytes), file = place)
  expect_identical(signature_of(signed$manifest), paste("signed by", signed$fingerprint))
  writeBin(as.raw(c(charToRaw(text), 0)), place)
  expect_identical(signature_of(signed$manifest), no_fit)
  unlink(place)
  dir.create(place)
  expect_identical(signature_of(signed$manifest), no_fit)
})

test_that("a pipe in the place of a signature is not waited for", {
  skip_on_os("windows")
  signed <- signed_release()
  place <- paste0(signed$manifest, ".sig")
  unlink(place)
  skip_if(system2("mkfifo", place) != 0, "there is no mkfifo")
  expect_identical(signature_of(signed$manifest), no_fit)
})
