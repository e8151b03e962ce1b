//! What goes wrong: processes, links and the store.

use super::*;

/// Something that is over after a while.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    Killed(usize),
    Cut(usize, usize),
    CutStore(usize),
    StoreAway,
    Snapshot,
}

impl World {
    pub(super) fn fault(&mut self) {
        if self.now > FAULTS_END {
            return;
        }
        let slot = self.chance.slot();
        let other = (slot + 1) % SLOTS;
        match self.chance.below(10) {
            0 | 1 => self.kill(slot),
            2 | 3 => {
                let until = self.now + 100 + self.chance.below(6000);
                let node = &mut self.nodes[slot];
                node.frozen_until = node.frozen_until.max(until);
                node.troubled = until;
            }
            4 => {
                (self.cut[slot][other], self.cut[other][slot]) = (true, true);
                self.after(100, 6000, Event::Heal(Trouble::Cut(slot, other)));
            }
            5 => {
                self.cut_store[slot] = true;
                self.after(100, 6000, Event::Heal(Trouble::CutStore(slot)));
            }
            6 => {
                // Cut off from everything.
                for other in (0..SLOTS).filter(|&other| other != slot) {
                    (self.cut[slot][other], self.cut[other][slot]) = (true, true);
                    self.after(100, 6000, Event::Heal(Trouble::Cut(slot, other)));
                }
                self.cut_store[slot] = true;
                self.after(100, 6000, Event::Heal(Trouble::CutStore(slot)));
            }
            7 => {
                self.store_up = false;
                self.after(100, 4000, Event::Heal(Trouble::StoreAway));
            }
            8 => {
                // A restart without data.
                self.lose_data(ModelStore::default());
            }
            _ => {
                self.behind = Some(self.store.clone());
                self.after(1, 100, Event::Heal(Trouble::Snapshot));
            }
        }
        self.after(100, 3000, Event::Fault);
    }

    fn kill(&mut self, slot: usize) {
        let process = (slot, self.nodes[slot].id);
        let held: Vec<_> = self.nodes[slot].sessions.keys().cloned().collect();
        for name in &held {
            self.excuse_owners_death(name);
        }
        self.nodes[slot].is_up = false;
        self.nodes[slot].sessions.clear();
        self.after(200, 4000, Event::Heal(Trouble::Killed(slot)));
        for request in 0..self.requests.len() {
            if !self.requests[request].is_over && self.requests[request].entry == process {
                self.finish(request, Outcome::Closed).expect("an end breaks no promise");
            }
        }
    }

    /// Sessions live as long as their owners until these have written them again.
    fn lose_data(&mut self, rest: ModelStore) {
        self.losses += 1;
        for client in 0..CLIENTS {
            let Some(name) = self.clients[client].session.clone() else { continue };
            self.clients[client].at_risk = true;
            self.lost_once.insert(name.clone());
            let now = self.instant();
            let claim = match self.store.execute(now, &StoreCommand::Read(name.clone())) {
                StoreReply::Claim(stored) => stored.map(|stored| stored.claim),
                _ => None,
            };
            let is_held = self.nodes.iter().any(|node| {
                let epoch = node.sessions.get(&name).map(|session| session.epoch);
                epoch.is_some() && epoch >= claim.map(|claim| claim.epoch)
            });
            self.clients[client].excused |= !is_held;
        }
        self.store = rest;
        for node in &mut self.nodes {
            node.troubled = self.now;
        }
    }

    pub(super) fn heal(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Killed(slot) => {
                if !self.nodes[slot].is_up {
                    self.nodes[slot] = self.new_node();
                    let process = (slot, self.nodes[slot].id);
                    self.at(self.now, Event::Tick(process));
                }
            }
            Trouble::Cut(one, other) => {
                (self.cut[one][other], self.cut[other][one]) = (false, false);
            }
            Trouble::CutStore(slot) => {
                self.cut_store[slot] = false;
                self.nodes[slot].troubled = self.now;
            }
            Trouble::StoreAway => {
                self.store_up = true;
                for node in &mut self.nodes {
                    node.troubled = self.now;
                }
            }
            Trouble::Snapshot => {
                if let Some(behind) = self.behind.take() {
                    self.lose_data(behind);
                }
            }
        }
    }
}
