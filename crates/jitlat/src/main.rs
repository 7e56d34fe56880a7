//! The command `jitlat`; everything is in the library of this package, so that its tests can read the definitions.

use std::process::ExitCode;

fn main() -> ExitCode {
    jitlat::run()
}
