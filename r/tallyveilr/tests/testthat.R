library(testthat)
library(tallyveilr)

test_check("tallyveilr")
