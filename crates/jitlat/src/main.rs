//! The command `jitlat`. Its code is in the library of this package, so that tests can read the definitions.

use std::process::ExitCode;

fn main() -> ExitCode {
    jitlat::run()
}
