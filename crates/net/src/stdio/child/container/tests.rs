//! Which commands run containers, what is added to them, and what their failures mean.

use super::*;

fn container(line: &str) -> Option<Container> {
    Container::of(&Command::parse(line).unwrap(), &[])
}

#[test]
fn a_container_is_known_by_the_command_that_runs_it() {
    let is_one = |line| container(line).is_some();
    assert!(is_one("docker run --rm -i image"));
    assert!(is_one("/usr/bin/podman --root /tmp/x run --rm -i image server --run"));
    assert!(is_one("podman container run -i image"));
    assert!(!is_one("docker exec -i name run"));
    assert!(!is_one("docker compose run service"));
    assert!(!is_one("npm run server"));
    assert!(!is_one("docker"));
}

#[test]
fn labels_are_added_and_the_rest_stays_as_it_was() {
    let run = container("podman --root r run --rm -i -e A=1 image server --flag").unwrap();
    let args = run.args();
    assert_eq!(args[..3], ["--root", "r", "run"]);
    assert_eq!(args[args.len() - 7..], ["--rm", "-i", "-e", "A=1", "image", "server", "--flag"]);
    let id = format!("switchboard.id={}", run.id);
    assert_eq!(args[3], format!("--label={id}"));
    assert!(args[4].starts_with("--label=switchboard.owner="));
    assert_eq!(args[5], format!("--name=switchboard-{}", run.id));
    assert_eq!(run.remove_words(), [id.as_str(), "podman", "--root", "r"]);
    for named in ["docker run --name mine image", "docker run --name=mine image"] {
        let args = container(named).unwrap().args();
        assert_eq!(args.iter().filter(|arg| arg.starts_with("--name")).count(), 1, "{args:?}");
    }
    let two = [container("docker run image").unwrap(), container("docker run image").unwrap()];
    assert_ne!(two[0].id, two[1].id);
}

/// Where a line has variables only a shell can read it.
#[test]
fn a_container_that_a_shell_runs_has_labels_too() {
    let by_shell = |line: &str| {
        let command = Command::new("/bin/sh").args(["-c", line]);
        Container::of(&command, &[])
    };
    let run = by_shell("podman --root '/a b' run --rm -i -e \"A=$A\" image").unwrap();
    assert_eq!(run.remove_words()[1..], ["podman", "--root", "/a b"]);
    let [flag, line] = &run.args()[..] else { panic!("{run:?}") };
    assert_eq!(flag, "-c");
    let begins = format!("exec 'podman' '--root' '/a b' run --label=switchboard.id={} ", run.id);
    assert!(line.starts_with(&begins), "{line}");
    assert!(line.ends_with(" --rm -i -e \"A=$A\" image"), "{line}");
    assert!(by_shell("docker run -i image sh -c 'a; b' \"c | \\\" & d\" \\; e").is_some());
    for other in [
        "cd /tmp && docker run image",
        "docker run image | tee log",
        "docker run $OPTIONS image; true",
        "$ENGINE run image",
        "npm run server",
        "docker exec name run it",
        "docker",
    ] {
        assert!(by_shell(other).is_none(), "{other}");
    }
}

#[test]
fn an_engine_sees_where_it_is_and_no_secrets() {
    let parent = [("PATH", "/bin"), ("DOCKER_HOST", "unix:///x"), ("AWS_SECRET", "s")]
        .map(|(name, value)| (name.into(), value.into()));
    let command = Command::parse("TOKEN=t docker run -e TOKEN image").unwrap();
    let run = Container::of(&command, &parent).unwrap();
    let names: Vec<_> = run.environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names, ["DOCKER_HOST", "PATH", "TOKEN"]);
}

#[test]
fn what_went_wrong_is_said_in_words_for_people() {
    let check = |code, said: &str, expected: &str| {
        let told = explain("docker", code, &said.to_lowercase()).unwrap_or_default();
        assert!(told.contains(expected), "{said}: {told}");
    };
    let daemon = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
    check(125, daemon, "docker is not running");
    let socket = "permission denied while trying to connect to the Docker daemon socket";
    check(125, socket, "may not use docker");
    check(125, "Error: localhost/x: image not known", "no such image");
    check(125, "Unable to find image 'x:latest' locally", "docker pull");
    check(125, "unknown flag: --x", "could not start");
    check(126, "", "could not be run");
    check(127, "", "not in the image");
    check(137, "", "memory");
    assert_eq!(explain("docker", 1, "image not known"), None, "the server's own business");
}

#[test]
fn each_engine_is_cleaned_once() {
    let seen = Mutex::default();
    let engines = ["docker run i", "podman run i", "podman --root r run i"];
    let engines = engines.map(|line| container(line).unwrap().engine);
    assert!(engines.iter().all(|engine| is_first(&seen, engine)));
    assert!(!engines.iter().any(|engine| is_first(&seen, engine)));
}

#[test]
fn only_those_of_us_are_gone_who_were_here() {
    assert!(!is_gone(&owner()), "we are there");
    let here = platform::process_space();
    assert!(is_gone(&format!("{here}.{}.1", std::process::id())), "somebody else has our id");
    assert!(is_gone(&format!("{here}.4194305.77")), "there is no such process");
    assert!(!is_gone("another-boot.1.4194305.77"));
    assert!(!is_gone(&format!("{here}.x.77")));
    assert!(!is_gone(""));
    assert!(!is_gone(&format!("{here}.4194305.")), "the system does not say when it began");
}
