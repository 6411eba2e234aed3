//! How many processors this process may really use.
//!
//! A container sees every processor of the machine but may be throttled to a few: more threads than its quota make each
//! pass slower. Read from control groups v2 (`cpu.max`) and v1 (`cpu.cfs_quota_us`), at every level above the process, since
//! the tightest one counts.

use std::fs;
use std::path::Path;
use std::thread;

/// Where control groups are mounted.
const CGROUP_MOUNT: &str = "/sys/fs/cgroup";
/// Which groups this process is in.
const OWN_CGROUPS: &str = "/proc/self/cgroup";

/// Processors that this process may use at the same time, at least 1: the least of the affinity mask and the control
/// groups' quotas, a fraction rounded down.
pub fn available() -> usize {
    let visible = thread::available_parallelism().map_or(1, usize::from);
    let own = fs::read_to_string(OWN_CGROUPS).unwrap_or_default();
    match tightest_quota(Path::new(CGROUP_MOUNT), &own) {
        Some(quota) => visible.min((quota as usize).max(1)),
        None => visible,
    }
}

/// The smallest quota, in processors, of the groups that `own` (the text of `/proc/self/cgroup`) names under `mount`.
fn tightest_quota(mount: &Path, own: &str) -> Option<f64> {
    let mut quotas = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if controllers.is_empty() {
            // Version 2, alone or beside version 1 ("unified").
            for root in [mount.to_path_buf(), mount.join("unified")] {
                quotas.extend(levels(&root, path, quota_v2));
            }
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            for root in [mount.join("cpu"), mount.join("cpu,cpuacct")] {
                quotas.extend(levels(&root, path, quota_v1));
            }
        }
    }
    quotas.into_iter().reduce(f64::min)
}

/// The quota of the group at `path` under `root` and of every group above it. In a container the path often does not exist
/// under the mount, whose root is then the group itself: missing levels count as no quota.
fn levels(root: &Path, path: &str, quota: fn(&Path) -> Option<f64>) -> Vec<f64> {
    let inner = Path::new(path.trim_start_matches('/'));
    inner.ancestors().filter_map(|level| quota(&root.join(level))).collect()
}

/// `cpu.max` is `QUOTA PERIOD` in microseconds, or `max PERIOD` for none.
fn quota_v2(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    ratio(words.next()?, words.next()?)
}

/// `cpu.cfs_quota_us` is microseconds per `cpu.cfs_period_us`, or -1 for none.
fn quota_v1(group: &Path) -> Option<f64> {
    let quota = fs::read_to_string(group.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?;
    ratio(quota.trim(), period.trim())
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.parse().ok()?;
    let period: f64 = period.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_tightest_level_of_version_2_counts() {
        let mount = tempfile::tempdir().unwrap();
        write(mount.path(), "kubepods/cpu.max", "150000 100000\n");
        write(mount.path(), "kubepods/pod/cpu.max", "max 100000\n");
        assert_eq!(tightest_quota(mount.path(), "0::/kubepods/pod\n"), Some(1.5));
        assert_eq!(tightest_quota(mount.path(), "0::/elsewhere\n"), None);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_root() {
        let mount = tempfile::tempdir().unwrap();
        write(mount.path(), "cpu.max", "200000 100000\n");
        assert_eq!(tightest_quota(mount.path(), "0::/\n"), Some(2.0));
        assert_eq!(tightest_quota(mount.path(), "0::/not/visible/here\n"), Some(2.0));
    }

    #[test]
    fn version_1_is_read_too() {
        let mount = tempfile::tempdir().unwrap();
        write(mount.path(), "cpu/docker/cpu.cfs_quota_us", "50000\n");
        write(mount.path(), "cpu/docker/cpu.cfs_period_us", "100000\n");
        write(mount.path(), "cpu/cpu.cfs_quota_us", "-1\n");
        write(mount.path(), "cpu/cpu.cfs_period_us", "100000\n");
        let own = "4:memory:/docker\n3:cpu,cpuacct:/docker\n0::/\n";
        assert_eq!(tightest_quota(mount.path(), own), Some(0.5));
        assert_eq!(tightest_quota(mount.path(), "3:cpuset:/docker\n"), None);
    }

    #[test]
    fn broken_files_are_no_quota() {
        let mount = tempfile::tempdir().unwrap();
        for text in ["", "max", "x y", "0 100000", "-5 100000", "100000 0"] {
            write(mount.path(), "cpu.max", text);
            assert_eq!(tightest_quota(mount.path(), "0::/\n"), None, "{text:?}");
        }
        assert!(available() >= 1);
    }
}
