//! Android, where a program of a terminal (Termux) runs as part of an app, under the filter of system calls that the system applies to apps: a
//! call that the filter does not allow ends the program.

use std::env;

/// Variables that Android sets for every process, and no other system sets.
const VARIABLES: [&str; 2] = ["ANDROID_ROOT", "ANDROID_DATA"];

/// True if this process runs on Android. The filter allows neither reading the state of the kernel's clock nor restrictions of one's own
/// (Landlock, seccomp), and a program cannot find out without being ended.
pub(crate) fn is_here() -> bool {
    VARIABLES.iter().all(|name| env::var_os(name).is_some())
}
