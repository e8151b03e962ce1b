//! What clients do, and what they are promised.

use super::*;

/// The longest time until a request is answered: the lease, a second, the work of a call,
/// and the steps to another owner, which may fall silent as well.
const LONGEST: u64 = 2 * LEASE + 1000 + 700 + 4 * (CONNECT + PATIENCE);

impl World {
    /// A client makes its next request, or its last one again.
    pub(super) fn act(&mut self, client: usize) -> Result<(), String> {
        let (call, wish) = match self.clients[client].wish {
            Some(wish) => wish,
            None => self.next_wish(client),
        };
        self.clients[client].wish = Some((call, wish));
        if matches!(wish, Wish::Call | Wish::Stream) && self.chance.below(8) == 0 {
            self.next_call += 1;
            self.make(client, (self.next_call, Wish::Call), true)?;
        }
        self.make(client, (call, wish), false)
    }

    fn make(
        &mut self,
        client: usize,
        (call, wish): (u64, Wish),
        is_extra: bool,
    ) -> Result<(), String> {
        let slot = self.chance.slot();
        let entry = (slot, self.nodes[slot].id);
        let name = match &self.clients[client].session {
            Some(name) if wish != Wish::Greet => name.clone(),
            _ => Arc::from(entry.1.session_id(u128::from(call))),
        };
        let (begun, hint) = (self.now, ReplicaId::hint(&name));
        self.requests.push(Request {
            client,
            call,
            is_extra,
            wish,
            entry,
            session: name.clone(),
            search: None,
            at: None,
            is_over: false,
            is_shown: false,
            is_pinging: false,
            silent_since: None,
            begun,
        });
        let request = self.requests.len() - 1;
        if !self.runs(entry) {
            return self.finish(request, Outcome::Refused);
        }
        if self.is_frozen(entry) {
            // A balancer would not send it there.
            return self.finish(request, Outcome::Refused);
        }
        if wish == Wish::Greet {
            let write = Self::write(entry, &name, Epoch::FIRST, Vec::new());
            self.send(entry, Purpose::Create(request, self.losses), vec![write]);
            return Ok(());
        }
        if self.nodes[slot].sessions.contains_key(&name) {
            return self.arrive(entry, request);
        }
        self.search(request, hint)
    }

    fn next_wish(&mut self, client: usize) -> (u64, Wish) {
        self.next_call += 1;
        let Client { session, shown, .. } = &self.clients[client];
        let shown = shown.as_ref().map(|shown| (shown.number, shown.answers.is_empty()));
        let wish = match (session, shown, self.chance.below(10)) {
            (None, ..) => Wish::Greet,
            (_, Some((stream, true)), _) | (_, Some((stream, _)), 0) => Wish::Resume(stream),
            (_, _, 1..=4) => Wish::Stream,
            _ => Wish::Call,
        };
        (self.next_call, wish)
    }

    /// A request comes to something that its client notices.
    pub(super) fn finish(&mut self, request: usize, outcome: Outcome) -> Result<(), String> {
        let Request { client, wish, begun, entry, is_over, .. } = &self.requests[request];
        let (number, wish, entry) = (*client, *wish, *entry);
        if *is_over {
            return Ok(());
        }
        let took = self.now - begun;
        let was_sound = self.nodes[entry.0].frozen_until <= *begun;
        if took > LONGEST && was_sound && !matches!(outcome, Outcome::Final(..) | Outcome::Closed) {
            return Err(format!("a request of {wish:?} took {took} ms"));
        }
        self.requests[request].is_over = !matches!(outcome, Outcome::Begun(_));
        if self.requests[request].is_extra {
            return Ok(());
        }
        if self.requests[request].is_over {
            self.after(50, 1000, Event::Act(number));
        }
        let client = &mut self.clients[number];
        match outcome {
            Outcome::Answer | Outcome::Unknown => {
                client.wish = None;
                client.answered += 1;
                client.last_answer = self.now;
            }
            Outcome::Unavailable | Outcome::Refused => {}
            Outcome::Closed if matches!(wish, Wish::Resume(_)) => {}
            // Whether it ran is not known.
            Outcome::Closed => client.wish = None,
            Outcome::Gone => return self.greet_again(number),
            Outcome::Begun(stream) => {
                self.requests[request].is_shown = true;
                if client.at_risk {
                    client.excused_streams.insert(stream);
                }
                client.shown = Some(ShownStream { number: stream, answers: BTreeSet::new() });
            }
            Outcome::Final(stream, text) => {
                client.wish = None;
                client.answered += 1;
                client.last_answer = self.now;
                return self.check_answer(number, stream, text);
            }
            Outcome::NotKnown => {
                client.wish = None;
                let shown = client.shown.take().map(|shown| shown.number);
                let is_excused =
                    shown.is_none_or(|stream| client.excused_streams.contains(&stream));
                let name = &self.requests[request].session;
                let is_excused = is_excused || self.lost_once.contains(name);
                if !is_excused && !client.excused && !client.at_risk {
                    return Err("a stream that was shown is not known any more".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Every stream that was shown ends with exactly one answer.
    fn check_answer(&mut self, client: usize, stream: u64, text: String) -> Result<(), String> {
        let Client { shown, excused, at_risk, excused_streams, .. } = &mut self.clients[client];
        // An old owner may answer while the store does not know of the newest one.
        let is_excused = *excused || *at_risk || excused_streams.contains(&stream);
        let Some(shown) = shown.as_mut().filter(|shown| shown.number == stream) else {
            return Ok(());
        };
        shown.answers.insert(text);
        if shown.answers.len() > 1 && !is_excused {
            return Err(format!("stream {stream:x} has two answers: {:?}", shown.answers));
        }
        Ok(())
    }

    /// A session is gone only if nothing of it can come back (section 6).
    fn greet_again(&mut self, number: usize) -> Result<(), String> {
        let client = &mut self.clients[number];
        let name = client.session.take().expect("it had a session");
        let is_excused = client.excused;
        let at_risk = std::mem::take(&mut client.at_risk);
        (client.excused, client.wish, client.shown) = (false, None, None);
        let holder = self.nodes.iter().position(|node| node.sessions.contains_key(&name));
        let is_cut_off = |slot: usize| {
            self.nodes[slot].frozen_until + 1500 > self.now
                || self.nodes[slot].troubled + 1500 > self.now
                || !self.nodes[slot].is_up
        };
        if is_excused || at_risk && holder.is_none_or(is_cut_off) {
            return Ok(());
        }
        Err(format!("{name} was said to be gone"))
    }

    pub(super) fn excuse_stream(&mut self, name: &ClaimName, stream: u64) {
        for client in &mut self.clients {
            if client.session.as_ref() == Some(name) {
                client.excused_streams.insert(stream);
            }
        }
    }

    /// After the last fault everything works again.
    pub(super) fn check_end(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            if client.last_answer + 15_000 < END {
                return Err(format!(
                    "client {number} had its last answer at {}",
                    client.last_answer
                ));
            }
        }
        Ok(())
    }
}
