//! `switchboard install`: the gateway, or one server, in the file of a client.

use std::fs;
use std::path::{Path, PathBuf};

use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use switchboard_gateway::config::{
    EditError, GATEWAY_NAME, KnownClient, NewEntry, Removal, Surroundings, USUAL_GATEWAY, followed,
    replace_file,
};

use crate::args::InstallArgs;
use crate::exit::{CommandError, CommandResult, cannot, wrong};
use crate::file_change::{self, added_lines, ask, copies_of, keep_copy, marked};
use crate::output::{plain, write_line};
use crate::serve::ESCAPED;
use crate::target::{no_url, short, surroundings};

/// Shows what would change in the file of the client, and changes it if the user agrees.
pub(crate) fn run(args: &InstallArgs) -> CommandResult {
    let around = surroundings()?;
    let Some(client) = KnownClient::find(&args.client) else {
        return wrong(format!("{:?} is no client", args.client), "see switchboard install --help");
    };
    let Some(file) = client.file(&around) else {
        return wrong("the variable HOME is not set", "export HOME=…, or paste it: --print");
    };
    let entry = entry(args)?;
    if args.print {
        return print(client, &file, &entry, &around);
    }
    let (yes, replaces) = (args.yes, args.replace);
    let job = InstallJob { client, file: &file, entry, around: &around, yes, replaces };
    if args.remove { job.remove() } else { job.install() }
}

/// The entry that the arguments describe.
fn entry(args: &InstallArgs) -> CommandResult<NewEntry> {
    let server = args.server.as_deref().filter(|name| !name.is_empty());
    let of_server = server
        .map(|name| format!("{USUAL_GATEWAY}/servers/{}/mcp", utf8_percent_encode(name, ESCAPED)));
    let url = args.url.clone().or(of_server).unwrap_or_else(|| format!("{USUAL_GATEWAY}/mcp"));
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(no_url(&url).of_usage());
    }
    let name = args.name.as_deref().or(server).unwrap_or(GATEWAY_NAME);
    let headers = args.header.iter().map(|header| match header.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => wrong("a header has no colon", "write --header 'Name: value'")
            .map_err(CommandError::of_usage),
    });
    // Programs with windows are often started without the user's `PATH`.
    let program = std::env::current_exe().unwrap_or_else(|_| GATEWAY_NAME.into());
    Ok(NewEntry {
        name: name.to_owned(),
        url,
        headers: headers.collect::<CommandResult<_>>()?,
        key_variable: None,
        program: program.to_string_lossy().into_owned(),
    })
}

/// What to paste, and where.
fn print(
    client: &KnownClient,
    file: &Path,
    entry: &NewEntry,
    around: &Surroundings,
) -> CommandResult {
    let text = client.install(file, "", entry).map_err(|error| refused(&error, file))?;
    write_line(&format!("{}:\n\n{}", short(file, around), text.trim_end()));
    if let Some(link) = client.link(entry) {
        write_line(&format!("\nOr open this address: {link}"));
    }
    Ok(())
}

fn refused(error: &EditError, file: &Path) -> CommandError {
    let what = match error {
        EditError::Syntax(_) => error.to_string(),
        _ => format!("{}: {error}", file.display()),
    };
    CommandError::new(what).hint(error.instead())
}

fn read(file: &Path) -> CommandResult<Option<String>> {
    file_change::read(file).map_err(cannot("read", file, "check who may read it"))
}

/// A change to the file of a client.
struct InstallJob<'a> {
    client: &'static KnownClient,
    /// As the client knows it: it may be a link.
    file: &'a Path,
    entry: NewEntry,
    around: &'a Surroundings,
    yes: bool,
    /// Whether another server under the same name gives way.
    replaces: bool,
}

impl InstallJob<'_> {
    fn install(&self) -> CommandResult {
        let (client, file) = (self.client, self.file);
        let before = read(file)?;
        let text = before.as_deref().unwrap_or_default();
        let after =
            client.install(file, text, &self.entry).map_err(|error| self.by_hand(&error))?;
        let (name, place) = (&self.entry.name, short(file, self.around));
        if !self.replaces && client.has_another(file, text, &self.entry) == Ok(true) {
            return Err(CommandError::new(format!("{place} has another server {name:?}"))
                .hint("write this one under another name: --name NAME")
                .hint("write it in the place of the other: --replace"));
        }
        if text == after {
            write_line(&format!("{place} has this entry already. Nothing is changed."));
            return Ok(());
        }
        let shown = match added_lines(text, &after) {
            Some((line, lines)) if before.is_some() => format!("{place}, line {line}:\n\n{lines}"),
            _ => {
                let new = client.install(file, "", &self.entry);
                let new = new.map_err(|error| refused(&error, file))?;
                let head = match before {
                    None => format!("{place}, a new file:\n\n"),
                    Some(_) if client.has_entry(file, text, name) == Ok(true) => {
                        format!("{place}:\n\n- the entry {name:?} that is there\n")
                    }
                    Some(_) => format!("{place}:\n\n"),
                };
                head + &marked(&new)
            }
        };
        write_line(self.masked(&shown).trim_end());
        if !self.is_agreed("Write it?")? {
            return Ok(());
        }
        self.check_unchanged(before.as_deref())?;
        let kept = self.write(before.as_deref(), &after)?;
        let kept = kept.map(|copy| short(&copy, self.around));
        let kept = kept.map(|copy| format!(" The file as it was: {copy}")).unwrap_or_default();
        write_line(&format!("Wrote {name:?} to {place}.{kept}\nNow restart {}.", client.name));
        Ok(())
    }

    fn remove(&self) -> CommandResult {
        let (client, file, name) = (self.client, self.file, &self.entry.name);
        let real = self.real()?;
        let before = read(&real)?;
        let place = short(file, self.around);
        let text = before.as_deref().unwrap_or_default();
        let copies = copies_of(&real).filter_map(|path| Some((read(&path).ok()??, path)));
        let copies: Vec<_> = copies.collect();
        let is_before = |(copy, _): &&(String, PathBuf)| {
            let back = Ok(Some(Removal::Text(copy.clone())));
            client.remove(file, text, Some(copy), name) == back
        };
        let copy = copies.iter().find(is_before);
        let known = copy.or(copies.first()).map(|(copy, _)| copy.as_str());
        let removal = client.remove(file, text, known, name);
        let Some(removal) = removal.map_err(|error| refused(&error, file))? else {
            write_line(&format!("{place} has no entry {name:?}. Nothing is changed."));
            return Ok(());
        };
        let what = match removal {
            Removal::NoFile => "with the file, which has nothing else".to_owned(),
            Removal::Text(_) => "and nothing else".to_owned(),
        };
        write_line(&format!("{place}:\n\n- the entry {name:?}, {what}"));
        if !self.is_agreed("Remove it?")? {
            return Ok(());
        }
        self.check_unchanged(before.as_deref())?;
        let failed = cannot("write", file, "check who may write there");
        match removal {
            Removal::NoFile => fs::remove_file(&real).map_err(failed)?,
            Removal::Text(after) => match copy {
                Some((_, path)) => {
                    replace_file(&real, &after).map_err(&failed)?;
                    fs::remove_file(path).map_err(&failed)?;
                }
                None => _ = self.write(Some(text), &after)?,
            },
        }
        write_line(&format!("Removed {name:?} from {place}. Now restart {}.", client.name));
        Ok(())
    }

    /// Header values are for the file alone.
    fn masked(&self, text: &str) -> String {
        let values = self.entry.headers.iter().filter(|(_, value)| !value.is_empty());
        values.fold(plain(text), |text, (_, value)| {
            let quoted = Value::from(value.as_str()).to_string();
            text.replace(quoted.trim_matches('"'), "…").replace(value, "…")
        })
    }

    /// The client may have written its file while we waited for the user.
    fn check_unchanged(&self, before: Option<&str>) -> CommandResult {
        if read(self.file)?.as_deref() == before {
            return Ok(());
        }
        let place = short(self.file, self.around);
        wrong(format!("{place} has changed meanwhile; nothing was written"), "run it again")
    }

    fn is_agreed(&self, question: &str) -> CommandResult<bool> {
        let is_agreed = self.yes || ask(question)?;
        if !is_agreed {
            write_line("Nothing was written.");
        }
        Ok(is_agreed)
    }

    /// The error for a file that cannot be edited, with what to write into it.
    fn by_hand(&self, error: &EditError) -> CommandError {
        if !matches!(error, EditError::Syntax(_))
            && let Ok(new) = self.client.install(self.file, "", &self.entry)
        {
            let text = format!("Add this to {}:\n\n{new}", short(self.file, self.around));
            write_line(self.masked(&text).trim_end());
        }
        refused(error, self.file)
    }

    fn real(&self) -> CommandResult<PathBuf> {
        let hint = "correct the link, or remove it";
        followed(self.file).map_err(cannot("write", self.file, hint))
    }

    /// Writes the file; gives where it is kept as it was.
    fn write(&self, before: Option<&str>, after: &str) -> CommandResult<Option<PathBuf>> {
        let real = self.real()?;
        let failed = cannot("write", &real, "check its path and who may write there");
        if let Some(folder) = real.parent() {
            fs::create_dir_all(folder).map_err(&failed)?;
        }
        let copy = before.map(|before| keep_copy(&real, before)).transpose().map_err(&failed)?;
        replace_file(&real, after).map_err(&failed)?;
        Ok(copy)
    }
}
