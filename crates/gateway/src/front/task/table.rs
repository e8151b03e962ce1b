//! Which tasks there are, and whose.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex};

use switchboard_net::connection::ClientConnection;
use switchboard_proto::revision::Era;

use super::super::lock;

/// Tasks that are remembered, of everybody and of one client; the oldest go first.
const MOST: usize = 8192;
const MOST_OF_ONE: usize = 1024;

/// The tasks that were made by calls of clients.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    table: Mutex<Table>,
    /// Makes ids that nobody guesses, the same each time.
    secret: RandomState,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<String, Task>,
    made: u64,
}

#[derive(Debug)]
struct Task {
    server: Arc<str>,
    theirs: Box<str>,
    owner: Owner,
    age: u64,
}

/// Who may ask for a task: a legacy client in the session that made it, a modern
/// one whoever it speaks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Owner {
    Session(u64),
    Principal(Box<[u8]>),
}

impl Owner {
    fn of(client: &ClientConnection) -> Self {
        match client.era() {
            Era::Legacy => Self::Session(client.number()),
            Era::Modern => Self::Principal(client.principal().into()),
        }
    }
}

impl Tasks {
    /// Remembers a task; our id of it.
    pub(super) fn put(&self, client: &ClientConnection, server: &Arc<str>, theirs: &str) -> String {
        self.put_for(Owner::of(client), server, theirs)
    }

    fn put_for(&self, owner: Owner, server: &Arc<str>, theirs: &str) -> String {
        let ours = self.name(&owner, server, theirs);
        let mut table = lock(&self.table);
        if table.by_id.contains_key(&ours) {
            return ours;
        }
        table.make_room(&owner);
        table.made += 1;
        let (server, theirs, age) = (Arc::clone(server), theirs.into(), table.made);
        table.by_id.insert(ours.clone(), Task { server, theirs, owner, age });
        ours
    }

    fn name(&self, owner: &Owner, server: &str, theirs: &str) -> String {
        format!("{:016x}.{theirs}", self.secret.hash_one((owner, server, theirs)))
    }

    /// Our id of a task, if it is one of this client.
    pub(in crate::front) fn ours(
        &self,
        client: &ClientConnection,
        server: &str,
        theirs: &str,
    ) -> Option<String> {
        let ours = self.name(&Owner::of(client), server, theirs);
        lock(&self.table).by_id.contains_key(&ours).then_some(ours)
    }

    /// The server of a task of this client, and its id there.
    pub(super) fn find(&self, client: &ClientConnection, ours: &str) -> Option<(Arc<str>, String)> {
        self.find_for(&Owner::of(client), ours)
    }

    fn find_for(&self, owner: &Owner, ours: &str) -> Option<(Arc<str>, String)> {
        let table = lock(&self.table);
        let task = table.by_id.get(ours).filter(|task| task.owner == *owner)?;
        Some((Arc::clone(&task.server), task.theirs.to_string()))
    }

    /// The servers at which this client has tasks, by name.
    pub(super) fn servers(&self, client: &ClientConnection) -> Vec<Arc<str>> {
        let (owner, table) = (Owner::of(client), lock(&self.table));
        let own = table.by_id.values().filter(|task| task.owner == owner);
        own.map(|task| Arc::clone(&task.server)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.table).by_id.is_empty()
    }

    /// A session is over, and nobody can ask for its tasks.
    pub(crate) fn forget(&self, client: u64) {
        lock(&self.table).by_id.retain(|_, task| task.owner != Owner::Session(client));
    }
}

impl Table {
    fn make_room(&mut self, owner: &Owner) {
        let own = self.by_id.values().filter(|task| task.owner == *owner).count();
        let is_in_the_way = |task: &Task| own < MOST_OF_ONE || task.owner == *owner;
        if own < MOST_OF_ONE && self.by_id.len() < MOST {
            return;
        }
        let oldest = self.by_id.iter().filter(|(_, task)| is_in_the_way(task));
        let oldest = oldest.min_by_key(|(_, task)| task.age).map(|(id, _)| id.clone());
        if let Some(id) = oldest {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_by_its_owner_alone() {
        let (tasks, server) = (Tasks::default(), Arc::from("a"));
        let (one, other) = (Owner::Session(1), Owner::Principal(b"1".as_slice().into()));
        let ours = tasks.put_for(one.clone(), &server, "t");
        assert_eq!(tasks.put_for(one.clone(), &server, "t"), ours, "the same each time");
        assert_ne!(tasks.put_for(one.clone(), &Arc::from("b"), "t"), ours, "ids of two servers");
        assert_eq!(tasks.find_for(&one, &ours), Some((server, "t".to_owned())));
        assert_eq!(tasks.find_for(&other, &ours), None);
        assert_eq!(tasks.find_for(&one, "t"), None);
        tasks.forget(1);
        assert!(tasks.is_empty());
    }

    #[test]
    fn the_oldest_tasks_go_first_and_those_of_one_client_cost_no_other_its_own() {
        let (tasks, server) = (Tasks::default(), Arc::from("a"));
        let first = tasks.put_for(Owner::Session(0), &server, "first");
        let id = |number: usize| number.to_string();
        let early = tasks.put_for(Owner::Session(1), &server, &id(0));
        for number in 1..=MOST_OF_ONE {
            tasks.put_for(Owner::Session(1), &server, &id(number));
        }
        assert_eq!(tasks.find_for(&Owner::Session(1), &early), None);
        assert!(tasks.find_for(&Owner::Session(0), &first).is_some());
        for session in 2..=u64::try_from(MOST).unwrap() {
            tasks.put_for(Owner::Session(session), &server, "t");
        }
        assert_eq!(tasks.find_for(&Owner::Session(0), &first), None);
        assert_eq!(lock(&tasks.table).by_id.len(), MOST);
    }
}
