//! A server by its name in a configuration file.

use std::path::{Path, PathBuf};

use switchboard_gateway::config::{
    Config, Entry, Problem, ReadError, Surroundings, Weight, known, nearest,
};

use super::no_url;
use crate::exit::CommandError;

/// What was looked into.
#[derive(Default)]
struct Search {
    read: Vec<Config>,
    /// Files that are there and make no sense.
    unread: Vec<ReadError>,
    /// Every place, there or not.
    places: Vec<PathBuf>,
}

/// The first server of that name in the given files, or in the usual places.
pub(super) fn find(name: &str, files: &[PathBuf]) -> Result<Entry, CommandError> {
    let around = surroundings()?;
    let search = if files.is_empty() { usual(&around) } else { given(files, &around)? };
    for config in &search.read {
        match config.server(name) {
            Some(Ok(entry)) => {
                tell_notes(config, name);
                return Ok(entry.clone());
            }
            Some(Err(problems)) => return Err(broken(name, &problems)),
            None => {}
        }
    }
    Err(search.not_found(name, &around))
}

/// Every server of a file. One that has mistakes is left out, and told.
pub(super) fn all(file: &Path) -> Result<Vec<Entry>, CommandError> {
    let config = Config::read(file, &surroundings()?);
    let config = config.map_err(|error| CommandError::of(&error).hint(error.instead()))?;
    for problem in &config.problems {
        tracing::warn!("{problem}; {}", problem.instead);
    }
    Ok(config.servers)
}

/// The environment and the folder, as far as they are text.
pub(crate) fn surroundings() -> Result<Surroundings, CommandError> {
    let folder = std::env::current_dir().map_err(|error| CommandError::of(&error))?;
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Surroundings::new(variables, folder))
}

/// Files that the user named must be there and make sense.
fn given(files: &[PathBuf], around: &Surroundings) -> Result<Search, CommandError> {
    let read = files.iter().map(|file| {
        Config::read(file, around).map_err(|error| CommandError::of(&error).hint(error.instead()))
    });
    let read = read.collect::<Result<_, _>>()?;
    Ok(Search { read, unread: Vec::new(), places: files.to_vec() })
}

/// Of the others it is enough that they do not hide the name.
fn usual(around: &Surroundings) -> Search {
    let mut search = Search::default();
    for place in known(around) {
        match Config::read(&place.file, around) {
            Ok(config) => search.read.push(config),
            // A file of settings without servers is no mistake.
            Err(error) if error.is_absent() || matches!(error, ReadError::NoServers { .. }) => {}
            Err(error) => search.unread.push(error),
        }
        search.places.push(place.file);
    }
    search
}

fn tell_notes(config: &Config, name: &str) {
    let is_meant = |note: &&Problem| match &note.server {
        Some(server) => server == name,
        None => note.weight == Weight::Note,
    };
    for note in config.problems.iter().filter(is_meant) {
        tracing::warn!("{note}; {}", note.instead);
    }
}

fn broken(name: &str, problems: &[&Problem]) -> CommandError {
    let mut told = problems.iter().map(ToString::to_string);
    let first = told.next().unwrap_or_else(|| format!("server {name:?} cannot be used"));
    let text = told.fold(first, |text, more| format!("{text}; {more}"));
    problems.iter().fold(CommandError::new(text), |failure, problem| failure.hint(&problem.instead))
}

impl Search {
    fn not_found(&self, name: &str, around: &Surroundings) -> CommandError {
        let names = || self.read.iter().flat_map(Config::names);
        if name.contains(['.', '/']) && !names().any(|other| other == name) {
            return no_url(name);
        }
        let mut failure =
            CommandError::new(format!("no configuration file names a server {name:?}"));
        if let Some(near) = nearest(name, names()) {
            failure = failure.hint(format!("did you mean {near:?}?"));
        }
        for config in self.read.iter().filter(|config| config.names().next().is_some()) {
            let names = config.names().collect::<Vec<_>>().join(", ");
            failure = failure.hint(format!("{} names {names}", short(&config.file, around)));
        }
        for error in &self.unread {
            failure = failure.hint(format!("left out: {error}; {}", error.instead()));
        }
        let places = self.places.iter().map(|place| short(place, around));
        let places = places.collect::<Vec<_>>().join(", ");
        failure
            .hint(format!("looked into {places}"))
            .hint("name another file with --config FILE, give a URL, or a command after --")
    }
}

/// A path as people write it.
pub(crate) fn short(path: &Path, around: &Surroundings) -> String {
    if let Ok(rest) = path.strip_prefix(around.folder()) {
        return format!("./{}", rest.display());
    }
    let home = around.home().and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned()));
    home.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}
