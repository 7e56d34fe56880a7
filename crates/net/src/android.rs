//! Android. A program that is started in a terminal app (Termux) runs under the filter of system calls that Android applies to apps: a call
//! that the filter does not allow ends the program.

use std::env;

/// Variables that Android sets for every process, and no other system sets.
const VARIABLES: [&str; 2] = ["ANDROID_ROOT", "ANDROID_DATA"];

/// True if this process runs on Android. The filter allows neither reading the state of the kernel's clock nor confining the
/// process (Landlock, seccomp); a program that tries to find out is ended.
pub(crate) fn is_here() -> bool {
    VARIABLES.iter().all(|name| env::var_os(name).is_some())
}
