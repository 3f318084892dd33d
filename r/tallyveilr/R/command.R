# Runs the command line of Tallyveil, and returns the lines that it prints; stops with what it says where it fails. An exit
# status other than 0 is no failure if it is the one that says what the command found.
run_command <- function(command, given, finding = 0) {
  place <- unname(Sys.which(path.expand(command)))
  if (place == "") {
    refuse(
      "no-command", "There is no program ", command, ", the command line of Tallyveil. Install Tallyveil, or name the place of ",
      "the program in `command`."
    )
  }
  # Apart from what it prints, so that a warning is not taken for a part of an answer.
  remarks <- tempfile("remarks")
  on.exit(unlink(remarks))
  said <- suppressWarnings(system2(place, shQuote(given), stdout = TRUE, stderr = remarks))
  status <- attr(said, "status")
  if (!is.null(status) && status != finding) {
    refuse("command-failed", paste(c(said, readLines(remarks, warn = FALSE)), collapse = "\n"))
  }
  enc2utf8(as.character(said))
}
