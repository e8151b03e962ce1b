//! Children are `sh` scripts; what must be gone is looked up in `/proc`.

use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use switchboard_net::stdio::child::{Child, Command, Grace, SpawnError, Status};
use switchboard_testkit::within;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::ChildStdout;

/// wire: STD-5
#[tokio::test]
async fn a_child_that_ends_at_the_end_of_stdin_gets_no_signal() {
    let mut child = start("cat; exit 3");
    let (stdin, stdout) = (child.stdin.as_mut().unwrap(), child.stdout.take().unwrap());
    stdin.write_all(b"hello\n").await.unwrap();
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    assert_eq!(line, "hello\n");
    let (id, group) = (child.id(), group_of(child.id()).unwrap());
    assert_eq!(child.stop(PATIENT).await.status, Status::Code(3));
    assert!(!exists(id) && !exists(group), "a zombie is left");
}

/// wire: STD-5
#[tokio::test]
async fn a_child_that_ignores_the_end_of_stdin_gets_term() {
    let mut child = start("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");
    assert_eq!(first_line(&mut child).await, "up");
    let grace = Grace { close: Duration::from_millis(50), ..PATIENT };
    assert_eq!(child.stop(grace).await.status, Status::Code(7));
}

/// wire: STD-5
#[tokio::test]
async fn a_child_that_ignores_term_gets_kill() {
    let mut child = start("trap '' TERM; echo up; while :; do sleep 1; done");
    assert_eq!(first_line(&mut child).await, "up");
    let (id, group) = (child.id(), group_of(child.id()).unwrap());
    let exit = child.stop(HASTY).await;
    assert_eq!(exit.to_string(), "Transport closed (killed by signal 9)");
    assert!(!exists(id) && !exists(group), "a zombie is left");
}

#[tokio::test]
async fn a_grandchild_that_ignores_term_ends_with_the_group() {
    let mut child = start(STUBBORN_FAMILY);
    let grandchild: u32 = first_line(&mut child).await.parse().unwrap();
    let group = group_of(grandchild).unwrap();
    assert_eq!(group_of(child.id()), Some(group));
    child.stop(HASTY).await;
    emptied(group).await;
}

#[tokio::test]
async fn a_grandchild_does_not_outlive_a_child_that_exits_by_itself() {
    let mut child = start("sh -c 'trap \"\" TERM; echo $$; sleep 1000; :' & read -r line; exit 5");
    let grandchild: u32 = first_line(&mut child).await.parse().unwrap();
    let group = group_of(grandchild).unwrap();
    drop(child.stdin.take());
    // The exit is told at once; the rest of the group is given its grace.
    assert_eq!(within(child.wait()).await.status, Status::Code(5));
    emptied(group).await;
    drop(child);
}

#[tokio::test]
async fn a_grandchild_is_asked_to_end_before_it_is_killed() {
    let script = "trap 'echo asked; exit' TERM; echo up; while :; do sleep 0.01; done";
    let mut child = start(&format!("sh -c \"{script}\" & read -r line; exit 5"));
    assert_eq!(first_line(&mut child).await, "up");
    drop(child.stdin.take());
    assert_eq!(within(child.wait()).await.status, Status::Code(5));
    assert_eq!(first_line(&mut child).await, "asked");
}

#[tokio::test]
async fn a_child_that_closes_stdout_but_lives_on_is_stopped() {
    let mut child = start("exec >&-; while :; do sleep 1; done");
    let mut rest = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty() && child.exit_watch().now().is_none());
    assert_eq!(child.stop(HASTY).await.status, Status::Signal(15));
}

#[tokio::test]
async fn a_stopped_child_wakes_up_to_end() {
    let mut child = start("trap 'exit 3' TERM; echo up; kill -STOP $$; sleep 1000");
    assert_eq!(first_line(&mut child).await, "up");
    let grace = Grace { close: Duration::from_millis(50), ..PATIENT };
    assert_eq!(child.stop(grace).await.status, Status::Code(3));
}

#[tokio::test]
async fn a_dropped_child_is_killed_and_reaped_with_its_group() {
    let mut child = start(STUBBORN_FAMILY);
    first_line(&mut child).await;
    let (id, group) = (child.id(), group_of(child.id()).unwrap());
    let mut exit = child.exit_watch();
    drop(child);
    assert_eq!(within(exit.wait()).await.status, Status::Signal(9));
    emptied(group).await;
    until("child and guard are reaped", || !exists(id) && !exists(group)).await;
}

#[tokio::test]
async fn a_stop_that_is_given_up_kills_at_once() {
    let mut child = start(STUBBORN_FAMILY);
    first_line(&mut child).await;
    let mut exit = child.exit_watch();
    let stop = tokio::time::timeout(Duration::from_millis(20), child.stop(PATIENT));
    assert!(stop.await.is_err());
    assert_eq!(within(exit.wait()).await.status, Status::Signal(9));
}

/// wire: STD-3
#[tokio::test]
async fn a_flood_on_stderr_blocks_nothing_and_the_tail_is_bounded() {
    let mut child = start("yes 'an error' | head -c 3600000 >&2; echo last >&2; echo done; cat");
    assert_eq!(first_line(&mut child).await, "done");
    let exit = child.stop(PATIENT).await;
    assert_eq!(exit.status, Status::Code(0));
    assert_eq!(exit.last_words.len(), 20);
    assert_eq!(exit.last_words[18..], ["an error", "last"]);
}

/// wire: STD-3
#[tokio::test]
async fn a_line_without_end_on_stderr_does_not_grow() {
    let mut child = start("head -c 3000000 /dev/zero >&2; echo done; cat");
    assert_eq!(first_line(&mut child).await, "done");
    let exit = child.stop(PATIENT).await;
    let [line] = &exit.last_words[..] else { panic!("{} lines", exit.last_words.len()) };
    assert!(line.len() < 16 * 1024 && line.ends_with('…'));
}

/// wire: STD-10
#[tokio::test]
async fn every_listener_learns_the_status_and_the_last_words() {
    let mut child = start("echo first >&2; printf 'no \\033[31mtoken' >&2; read -r line; exit 1");
    let (mut one, mut two) = (child.exit_watch(), child.exit_watch());
    assert!(one.now().is_none());
    drop(child.stdin.take());
    let text = "Transport closed (exit status 1); last words: first | no token";
    assert_eq!(within(one.wait()).await.to_string(), text);
    assert_eq!(within(two.wait()).await.to_string(), text);
    assert_eq!(within(child.wait()).await.to_string(), text);
    assert_eq!(child.stderr_tail(), ["first", "no token"]);
}

/// wire: STD-7
#[tokio::test]
async fn a_child_sees_only_what_it_needs_unless_told_otherwise() {
    let parent = [("PATH", "/usr/bin:/bin"), ("HOME", "/h"), ("LC_ALL", "C"), ("SECRET", "s")]
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let seen = async |command: Command| {
        let mut child = command.spawn(&parent).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
        child.stop(PATIENT).await;
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let command = Command::new("env").env("HOME", "/own").env("TOKEN", "t");
    let minimal = ["HOME=/own", "LC_ALL=C", "PATH=/usr/bin:/bin", "TOKEN=t"];
    assert_eq!(seen(command.clone()).await, minimal);
    let all = ["HOME=/own", "LC_ALL=C", "PATH=/usr/bin:/bin", "SECRET=s", "TOKEN=t"];
    assert_eq!(seen(command.pass_environment()).await, all);
}

#[tokio::test]
async fn a_child_runs_where_it_is_told_to() {
    let mut child = Command::new("pwd").arg("-P").cwd("/usr").spawn(&environment()).unwrap();
    assert_eq!(first_line(&mut child).await, "/usr");
    assert_eq!(within(child.wait()).await.status, Status::Code(0));
}

#[tokio::test]
async fn what_does_not_start_says_why() {
    let error = |command: Command| {
        let found = command.check(&environment()).err().map(|error| error.to_string());
        let error = command.spawn(&environment()).unwrap_err();
        // Only what the system alone can know is not known beforehand.
        let is_known = !matches!(error, SpawnError::Refused { .. });
        assert_eq!(found, is_known.then(|| error.to_string()));
        error
    };
    assert!(Command::new("true").check(&environment()).is_ok());
    let missing = error(Command::new("no-such-program-here"));
    assert!(matches!(missing, SpawnError::NotInPath { .. }));
    assert_eq!(
        missing.to_string(),
        "no-such-program-here is in no directory of PATH; install it, or give its full path"
    );
    let absent = error(Command::new("./absent").cwd("/usr"));
    assert!(absent.to_string().starts_with("there is no file /usr/./absent;"), "{absent}");
    let lost = error(Command::new("true").cwd("/no/such/place"));
    assert!(matches!(lost, SpawnError::NoDirectory { .. }), "{lost}");
    let plain = error(Command::new("/etc/passwd"));
    assert!(matches!(plain, SpawnError::NotExecutable { .. }), "{plain}");
    let nul = error(Command::new("true").arg("a\0b"));
    assert!(matches!(nul, SpawnError::Refused { .. }), "{nul}");
}

#[tokio::test]
async fn a_script_without_its_interpreter_is_not_called_missing() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("switchboard-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let script = directory.join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let by_path = Command::new(script.to_str().unwrap()).spawn(&[]);
    let path = [("PATH".into(), directory.clone().into_os_string())];
    let by_name = Command::new("script").spawn(&path);
    fs::remove_dir_all(&directory).unwrap();
    for error in [by_path.unwrap_err(), by_name.unwrap_err()] {
        assert!(matches!(&error, SpawnError::NoInterpreter { file } if *file == script), "{error}");
    }
}

/// The tests from here on run themselves again as the process to kill.
#[tokio::test]
async fn children_and_grandchildren_end_when_we_are_killed() {
    if std::env::var_os(VICTIM).is_some() {
        return be_killed().await;
    }
    let (mut victim, groups) = families("children_and_grandchildren_end_when_we_are_killed").await;
    // The shell says that it is there before it has forked the last of its family.
    until("both families are whole", || groups.iter().all(|&group| members(group).len() >= 3))
        .await;
    assert_eq!(guards(&victim).len(), 1, "one guard is for both");
    // This is SIGKILL, to the one process and not to its group.
    victim.kill().await.unwrap();
    for group in groups {
        emptied(group).await;
    }
}

#[tokio::test]
async fn a_guard_that_is_killed_is_replaced_and_knows_all_groups() {
    if std::env::var_os(VICTIM).is_some() {
        return be_killed().await;
    }
    let (mut victim, groups) =
        families("a_guard_that_is_killed_is_replaced_and_knows_all_groups").await;
    let old = guards(&victim);
    let [guard] = old[..] else { panic!("one guard: {old:?}") };
    let killed = std::process::Command::new("kill").args(["-KILL", &guard.to_string()]).status();
    assert!(killed.unwrap().success());
    until("another guard is there", || guards(&victim).iter().any(|id| !old.contains(id))).await;
    assert!(!exists(guard), "a zombie is left");
    assert!(groups.iter().all(|&group| members(group).len() >= 3), "no child ended");
    victim.kill().await.unwrap();
    for group in groups {
        emptied(group).await;
    }
}

/// Wherever it is in starting one: none runs that the guard does not know.
#[tokio::test]
async fn children_that_are_just_being_started_end_when_we_are_killed() {
    if std::env::var_os(VICTIM).is_some() {
        return start_many().await;
    }
    for round in 0..10_u64 {
        let (mut victim, mut lines) =
            victim("children_that_are_just_being_started_end_when_we_are_killed");
        let id = victim.id().unwrap();
        // Not a word of the test's name, which the harness prints too.
        while !within(lines.next_line()).await.unwrap().expect("it starts").contains(FIRST) {}
        tokio::time::sleep(Duration::from_micros(7_000 + 1_700 * round)).await;
        let mark = format!("started-by-{id}");
        assert!(!with_word(&mark).is_empty(), "round {round}: there is something to end");
        victim.kill().await.unwrap();
        until("none of them is left", || with_word(&mark).is_empty()).await;
    }
}

#[tokio::test]
async fn the_guard_ends_with_the_last_child_and_leaves_no_zombie() {
    if std::env::var_os(VICTIM).is_some() {
        start("cat").stop(PATIENT).await;
        println!("group 1\ngroup 1");
        return std::future::pending::<()>().await;
    }
    let (victim, _) = families("the_guard_ends_with_the_last_child_and_leaves_no_zombie").await;
    let has_child = |id| parent_of(id) == victim.id();
    until("no process is left", || !processes().into_iter().any(has_child)).await;
}

/// Starts this test again, and reads what it prints.
fn victim(test: &str) -> (tokio::process::Child, Lines<BufReader<ChildStdout>>) {
    let mut victim = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("child::{test}"), "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    (victim, lines)
}

/// A process to kill with the two groups that it has started.
async fn families(test: &str) -> (tokio::process::Child, Vec<u32>) {
    let (victim, mut lines) = victim(test);
    let mut groups = Vec::new();
    while groups.len() < 2 {
        let line = within(lines.next_line()).await.unwrap().expect("two groups are started");
        // The harness prints its own text on the same line.
        if let Some((_, group)) = line.split_once("group ") {
            groups.push(group.parse().unwrap());
        }
    }
    (victim, groups)
}

/// Starts two families, so that one could keep the other's pipe open.
async fn be_killed() {
    let mut families = [start(STUBBORN_FAMILY), start(STUBBORN_FAMILY)];
    for child in &mut families {
        first_line(child).await;
        println!("group {}", group_of(child.id()).unwrap());
    }
    std::future::pending::<()>().await;
}

/// Starts children until it is killed.
async fn start_many() {
    let mark = format!("started-by-{}", std::process::id());
    let mut children = Vec::new();
    loop {
        let command = Command::new("sh").args(["-c", "trap '' TERM; sleep 1000; :", &mark]);
        children.push(command.spawn(&environment()).unwrap());
        if children.len() == 1 {
            println!("{FIRST}");
        }
        tokio::task::yield_now().await;
    }
}

/// The guards of a process.
fn guards(of: &tokio::process::Child) -> Vec<u32> {
    let guards = with_word("switchboard-guard").into_iter();
    guards.filter(|&id| parent_of(id) == of.id()).collect()
}

/// The processes that have this word in their command lines.
fn with_word(word: &str) -> Vec<u32> {
    let has_word = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|other| other == word.as_bytes())
    };
    processes().into_iter().filter(has_word).collect()
}

/// What a victim prints once it has a child.
const FIRST: &str = "the first child runs";

const VICTIM: &str = "SWITCHBOARD_TEST_VICTIM";

/// A child, a grandchild that tells its id and ignores SIGTERM, and its `sleep`.
const STUBBORN_FAMILY: &str = "trap '' TERM; sh -c 'echo $$; sleep 1000; :'; :";

/// For children that are expected to end before it is over.
const PATIENT: Grace = Grace { close: Duration::from_mins(1), term: Duration::from_mins(1) };

/// For children that are expected to need force.
const HASTY: Grace = Grace { close: Duration::from_millis(20), term: Duration::from_millis(100) };

fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

fn start(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).spawn(&environment()).unwrap()
}

async fn first_line(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    within(lines.next_line()).await.unwrap().expect("the script says something")
}

fn exists(id: u32) -> bool {
    fs::exists(format!("/proc/{id}")).unwrap()
}

/// The group of a process that lives, zombies left aside.
fn group_of(id: u32) -> Option<u32> {
    let fields = stat(id)?;
    (!matches!(&*fields[0], "Z" | "X")).then(|| fields[2].parse().unwrap())
}

/// The parent of a process, also of a zombie.
fn parent_of(id: u32) -> Option<u32> {
    stat(id)?[1].parse().ok()
}

/// State, parent, group and so on.
fn stat(id: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn members(group: u32) -> Vec<u32> {
    processes().into_iter().filter(|&id| group_of(id) == Some(group)).collect()
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).collect()
}

/// Whoever is killed takes a moment to be gone, and is not ours to wait for.
async fn emptied(group: u32) {
    until(&format!("group {group} is empty"), || members(group).is_empty()).await;
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
