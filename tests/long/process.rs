//! What the kernel says of a server's process.

use std::fs;

/// Memory in RAM, in KiB.
pub fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Open files and sockets.
pub fn open_files(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).expect("the server runs").count()
}
