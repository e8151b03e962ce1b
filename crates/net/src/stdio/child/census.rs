//! Which process groups have members, as `/proc` shows it.
//!
//! A look at `/proc` costs a file for each process of the machine. When many
//! groups end at once, as all sessions do at a shutdown, they share the looks:
//! one at a time is taken, for all who have asked before it began.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::Instant;

use tokio::sync::Mutex;

static LATEST: Mutex<Option<Census>> = Mutex::const_new(None);

/// One look.
struct Census {
    begun: Instant,
    /// Groups with a member that lives and does not lead the group; none if
    /// the system does not show its processes.
    groups: Option<HashSet<i32>>,
}

/// Whether anybody but its leader lives in the group. A system without `/proc`
/// cannot tell; then we say yes.
pub(super) async fn has_members(group: i32) -> bool {
    let asked = Instant::now();
    let mut latest = LATEST.lock().await;
    let mut census = latest.take().filter(|census| census.begun >= asked);
    if census.is_none() {
        let look = move || Census { begun: Instant::now(), groups: groups().ok() };
        census = tokio::task::spawn_blocking(look).await.ok();
    }
    let groups = census.as_ref().and_then(|census| census.groups.as_ref());
    let has_members = groups.is_none_or(|groups| groups.contains(&group));
    *latest = census;
    has_members
}

fn groups() -> io::Result<HashSet<i32>> {
    let mut groups = HashSet::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let id = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(id) = id else { continue };
        // A process may end between the listing and the reading.
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        groups.extend(group_of(&String::from_utf8_lossy(&stat)).filter(|&group| group != id));
    }
    Ok(groups)
}

/// Reads `pid (name) state parent group …`; the name may hold anything. None of
/// a process that has ended.
fn group_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let group = fields.nth(1)?.parse().ok()?;
    (!dead).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_in_the_group_its_stat_names() {
        assert_eq!(group_of("7 (sh) S 1 42 42 0 -1"), Some(42));
        assert_eq!(group_of("7 (sh) S 42 1 42 0 -1"), Some(1));
        assert_eq!(group_of("7 (sh) Z 1 42 42 0 -1"), None);
        assert_eq!(group_of("7 (a) Z 1 1 (b) R 1 42 42 0 -1"), Some(42));
        assert_eq!(group_of("7 (sh"), None);
    }

    /// All of them ask before the first look is over.
    #[tokio::test]
    async fn a_group_that_was_filled_before_it_was_asked_for_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let own = group_of(&fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
        let (mut asked, mut unknown) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            asked.push(tokio::spawn(has_members(own)));
            unknown.push(tokio::spawn(has_members(id)));
        }
        for asked in asked {
            assert!(asked.await.unwrap());
        }
        for unknown in unknown {
            assert!(!unknown.await.unwrap(), "it is in our group");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
