//! What replicas do: as the entry of a request, and as the owner of its session.

use super::*;

impl World {
    pub(super) fn handle_reply(
        &mut self,
        process: Process,
        purpose: Purpose,
        sent: u64,
        replies: Option<Vec<StoreReply>>,
    ) -> Result<(), String> {
        let slot = process.0;
        let sent_at = self.start + Duration::from_millis(sent);
        let node = &mut self.nodes[slot];
        if replies.is_none() {
            node.troubled = self.now;
        } else if node.connection != self.losses {
            node.connection = self.losses;
            node.holdings.handle_reconnect(sent_at);
        }
        match purpose {
            Purpose::Renew => {
                self.handle_renewed(process, sent_at, replies.as_deref());
                Ok(())
            }
            Purpose::Assert(name, epoch, life) => {
                let is_done = matches!(replies.as_deref(), Some([StoreReply::Done]));
                if is_done && life == self.losses {
                    self.end_risk(&name, epoch);
                }
                self.handle_written(process, &name, epoch, (sent_at, replies.as_deref()), false)
            }
            Purpose::Log(name, epoch) => {
                self.handle_written(process, &name, epoch, (sent_at, replies.as_deref()), true)
            }
            Purpose::Create(request, life) => {
                let is_kept = replies.is_some() && life == self.losses;
                self.created(process, request, (replies.is_some().then_some(sent_at), is_kept))
            }
            Purpose::Read(request) => self.handle_claim(process, request, sent_at, replies),
            Purpose::Take(request, claim) => {
                self.handle_take(process, request, claim, (sent_at, replies))
            }
            Purpose::Check(request, epoch) => {
                let name = self.requests[request].session.clone();
                self.handle_renewed(process, sent_at, replies.as_deref());
                let rest = replies.as_deref().map(|all| &all[1..]);
                self.handle_written(process, &name, epoch, (sent_at, rest), false)?;
                let may = replies.is_some()
                    || self.nodes[slot].holdings.may_go_on(self.instant())
                    || self.mutation == Mutation::NoDoubt;
                if !self.nodes[slot].sessions.contains_key(&name) {
                    return self.disclaim(process, request);
                }
                if may {
                    let serving = self.nodes[slot].holdings.serving(&name, self.instant());
                    return self.serve(process, request, serving == Some(ServingState::Now));
                }
                self.finish(request, Outcome::Unavailable)
            }
        }
    }

    fn handle_renewed(
        &mut self,
        (slot, id): Process,
        sent: Instant,
        replies: Option<&[StoreReply]>,
    ) {
        let Some(reply) = replies.and_then(<[_]>::first) else { return };
        self.nodes[slot].holdings.handle_renewed(sent, reply);
        self.assert_claims((slot, id));
    }

    fn handle_written(
        &mut self,
        process: Process,
        name: &ClaimName,
        epoch: Epoch,
        (sent, replies): (Instant, Option<&[StoreReply]>),
        is_log: bool,
    ) -> Result<(), String> {
        let now = self.instant();
        let Node { holdings, sessions, .. } = &mut self.nodes[process.0];
        let Some(session) = sessions.get_mut(name).filter(|session| session.epoch == epoch) else {
            return Ok(());
        };
        match replies.and_then(<[_]>::first) {
            Some(StoreReply::Done) => {
                holdings.handle_written(name, epoch, sent);
                if is_log {
                    session.log.handle_written();
                    self.show_written(process, name, false)?;
                    self.write_log(process, name);
                    return Ok(());
                }
                Ok(())
            }
            Some(StoreReply::Fenced(_)) => {
                holdings.handle_fenced(name, epoch);
                match holdings.poll_given_up() {
                    Some(name) => self.lose(process, &name),
                    None => Ok(()),
                }
            }
            _ if is_log => {
                session.log.handle_away();
                let may = holdings.may_go_on(now);
                if may {
                    self.show_written(process, name, true)?;
                }
                self.write_log(process, name);
                Ok(())
            }
            _ => {
                holdings.handle_unwritten(name.clone());
                Ok(())
            }
        }
    }

    /// The session is another's: its streams are closed here.
    fn lose(&mut self, process: Process, name: &ClaimName) -> Result<(), String> {
        self.excuse_owners_death(name);
        self.nodes[process.0].sessions.remove(name);
        let attached = self.requests.iter().enumerate().filter(|(_, request)| {
            !request.is_over && request.at == Some(process) && request.session == *name
        });
        for request in attached.map(|(request, _)| request).collect::<Vec<_>>() {
            let is_shown = self.requests[request].is_shown;
            self.finish(request, if is_shown { Outcome::Closed } else { Outcome::Unknown })?;
        }
        Ok(())
    }

    /// The store has the session again, as its newest owner has it.
    fn end_risk(&mut self, name: &ClaimName, epoch: Epoch) {
        let newest =
            self.nodes.iter().filter_map(|node| Some(node.sessions.get(name)?.epoch)).max();
        for client in &mut self.clients {
            if client.session.as_ref() == Some(name) && newest <= Some(epoch) {
                client.at_risk = false;
            }
        }
    }

    /// What a session had that the store did not is gone with its owner.
    pub(super) fn excuse_owners_death(&mut self, name: &ClaimName) {
        for client in &mut self.clients {
            if client.session.as_ref() == Some(name) && client.at_risk {
                client.excused = true;
            }
        }
    }

    /// Sends what the store has by now, or what need not wait because it is away.
    fn show_written(
        &mut self,
        process: Process,
        name: &ClaimName,
        is_away: bool,
    ) -> Result<(), String> {
        let Some(session) = self.nodes[process.0].sessions.get_mut(name) else { return Ok(()) };
        let gated = std::mem::take(&mut session.gated);
        let (ready, gated) =
            gated.into_iter().partition(|(at, _)| is_away || session.log.is_written(*at));
        session.gated = gated;
        let ready: Vec<(u64, Shown)> = ready;
        for (at, shown) in ready {
            let is_unwritten = is_away && {
                let session = self.nodes[process.0].sessions.get(name);
                session.is_some_and(|session| !session.log.is_written(at))
            };
            self.show(process, name, shown, is_unwritten)?;
        }
        Ok(())
    }

    fn show(
        &mut self,
        process: Process,
        name: &ClaimName,
        shown: Shown,
        is_unwritten: bool,
    ) -> Result<(), String> {
        let (stream, request) = match &shown {
            Shown::Begin { stream, request } => (*stream, Some(*request)),
            Shown::Answer { stream, text } => {
                let Some(session) = self.nodes[process.0].sessions.get_mut(name) else {
                    return Ok(());
                };
                let owned = session.streams.entry(*stream).or_default();
                owned.answer = Some(text.clone());
                (*stream, owned.attached.take())
            }
        };
        if is_unwritten {
            self.excuse_stream(name, stream);
        }
        let Some(request) = request else { return Ok(()) };
        let outcome = match shown {
            Shown::Begin { .. } => Outcome::Begun(stream),
            Shown::Answer { text, .. } => Outcome::Final(stream, text),
        };
        self.deliver(process, request, outcome)
    }

    /// The owner answers. What a cut link holds up arrives later, unless the entry gives up.
    pub(super) fn deliver(
        &mut self,
        process: Process,
        request: usize,
        outcome: Outcome,
    ) -> Result<(), String> {
        let Request { entry, at, is_over, .. } = &self.requests[request];
        if *is_over || *at != Some(process) || !self.runs(*entry) {
            return Ok(());
        }
        if self.can_talk(process.0, entry.0) {
            return self.finish(request, outcome);
        }
        self.at(self.now + 100, Event::Deliver(process, request, outcome));
        Ok(())
    }

    fn write_log(&mut self, process: Process, name: &ClaimName) {
        let Some(session) = self.nodes[process.0].sessions.get_mut(name) else { return };
        let epoch = session.epoch;
        if let Some(entries) = session.log.poll_write() {
            let write = Self::write(process, name, epoch, entries);
            self.send(process, Purpose::Log(name.clone(), epoch), vec![write]);
        }
    }

    fn push(
        &mut self,
        process: Process,
        name: &ClaimName,
        event: &StreamEvent,
        shown: Shown,
    ) -> Result<(), String> {
        let Some(session) = self.nodes[process.0].sessions.get_mut(name) else { return Ok(()) };
        let at = session.log.push(event);
        let (is_lasting, payload) = (true, event.encode());
        session.history.push(LogEntry { position: at, is_lasting, payload });
        let is_early = match &shown {
            Shown::Begin { .. } => self.mutation == Mutation::ShowBeforeBegin,
            Shown::Answer { .. } => self.mutation == Mutation::AnswerBeforeWrite,
        };
        if is_early {
            self.show(process, name, shown, false)?;
        } else {
            session.gated.push((at, shown));
        }
        self.write_log(process, name);
        Ok(())
    }

    /// A request is at the replica that should own its session.
    pub(super) fn arrive(&mut self, process: Process, request: usize) -> Result<(), String> {
        let now = self.instant();
        let name = self.requests[request].session.clone();
        if self.requests[request].is_over {
            return Ok(());
        }
        let node = &self.nodes[process.0];
        if node.taking.contains(&name) {
            self.after(5, 20, Event::Arrive(process, request));
            return Ok(());
        }
        match node.holdings.serving(&name, now) {
            None => self.disclaim(process, request),
            Some(_) if self.mutation == Mutation::NoDoubt => self.serve(process, request, true),
            Some(ServingState::Now) => self.serve(process, request, true),
            Some(ServingState::AfterCheck) => {
                let epoch = node.holdings.epoch(&name).expect("it is held");
                let renewal = node.holdings.renewal(Bytes::new());
                let history = node.sessions.get(&name).map(|session| session.history.clone());
                let write = Self::write(process, &name, epoch, history.unwrap_or_default());
                self.send(process, Purpose::Check(request, epoch), vec![renewal, write]);
                Ok(())
            }
        }
    }

    fn disclaim(&mut self, process: Process, request: usize) -> Result<(), String> {
        if self.requests[request].entry == process {
            return self.search(request, None);
        }
        self.requests[request].at = None;
        self.after(0, 4, Event::Hop(request, HopResult::NotOwner));
        Ok(())
    }

    fn serve(&mut self, process: Process, request: usize, is_certain: bool) -> Result<(), String> {
        let Request { wish, call, session: name, is_over, .. } = &self.requests[request];
        let (wish, call, name) = (*wish, *call, name.clone());
        if *is_over {
            return Ok(());
        }
        self.requests[request].at = Some(process);
        if let Wish::Resume(stream) = wish {
            let session = self.nodes[process.0].sessions.get_mut(&name).expect("it is held");
            let Some(owned) = session.streams.get_mut(&stream) else {
                // Another owner may know it.
                let unknown = if is_certain { Outcome::NotKnown } else { Outcome::Unavailable };
                return self.finish(request, unknown);
            };
            if let Some(text) = owned.answer.clone() {
                return self.finish(request, Outcome::Final(stream, text));
            }
            owned.attached = Some(request);
            return Ok(());
        }
        // Nothing is executed twice, nor by two memories at a time.
        if !self.executed.insert(call) {
            return Err(format!("call {call} was executed twice"));
        }
        self.check_memory(process, &name)?;
        if wish == Wish::Stream {
            let session = self.nodes[process.0].sessions.get_mut(&name).expect("it is held");
            let stream = session.epoch.first_position() + session.history.len() as u64 + 1;
            let attached = Some(request);
            session.streams.insert(stream, OwnedStream { attached, answer: None });
            let event = StreamEvent::Begin { stream, request: Bytes::from(call.to_string()) };
            self.push(process, &name, &event, Shown::Begin { stream, request })?;
        }
        self.after(1, 700, Event::Work(process, request));
        Ok(())
    }

    /// One that was frozen gives its sessions up before it serves them.
    fn check_memory(&self, process: Process, name: &ClaimName) -> Result<(), String> {
        let read = StoreCommand::Read(name.clone());
        let StoreReply::Claim(Some(stored)) = self.store.clone().execute(self.instant(), &read)
        else {
            return Ok(());
        };
        let node = &self.nodes[process.0];
        let epoch = node.sessions.get(name).map(|session| session.epoch);
        let taken = self.taken_at.get(name).copied().unwrap_or_default();
        let is_sound = !self.lost_once.contains(name)
            && node.troubled + 1500 < self.now
            && self.reaches_store(process.0);
        if epoch < Some(stored.claim.epoch) && taken + 1500 < self.now && is_sound {
            return Err(format!("{} serves {name}, which is another's", process.1));
        }
        Ok(())
    }

    /// The work of a call is done.
    pub(super) fn work(&mut self, process: Process, request: usize) -> Result<(), String> {
        let Request { wish, call, session: name, .. } = &self.requests[request];
        let (wish, call, name) = (*wish, *call, name.clone());
        if wish == Wish::Call {
            return self.deliver(process, request, Outcome::Answer);
        }
        let Some(session) = self.nodes[process.0].sessions.get(&name) else { return Ok(()) };
        let text = call.to_string();
        let begun = session.history.iter().filter_map(|entry| StreamEvent::decode(&entry.payload));
        let stream = begun.into_iter().find_map(|event| match event {
            StreamEvent::Begin { stream, request } if request == text.as_bytes() => Some(stream),
            _ => None,
        });
        // The session was lost and came back: the call was answered then.
        let Some(stream) = stream.filter(|stream| *stream >= session.epoch.first_position()) else {
            return Ok(());
        };
        let event = StreamEvent::Answer { stream, text: Bytes::from(text.clone()) };
        self.push(process, &name, &event, Shown::Answer { stream, text })
    }

    /// The entry looks for the owner, or asks again.
    pub(super) fn search(&mut self, request: usize, hint: Option<ReplicaId>) -> Result<(), String> {
        let me = self.requests[request].entry.1;
        let (search, step) = OwnerSearch::new(me, hint);
        self.requests[request].search = Some(search);
        self.step(request, step)
    }

    fn go_on(
        &mut self,
        request: usize,
        next: impl FnOnce(&mut OwnerSearch) -> SearchStep,
    ) -> Result<(), String> {
        let search = self.requests[request].search.as_mut().expect("it searches");
        let step = next(search);
        self.step(request, step)
    }

    pub(super) fn step(&mut self, request: usize, step: SearchStep) -> Result<(), String> {
        let Request { entry, session, is_over, .. } = &self.requests[request];
        let (entry, name) = (*entry, session.clone());
        if *is_over {
            return Ok(());
        }
        match step {
            SearchStep::Forward(owner) => self.forward(request, owner),
            SearchStep::ReadClaim => {
                let renewal = self.nodes[entry.0].holdings.renewal(Bytes::new());
                self.send(entry, Purpose::Read(request), vec![renewal, StoreCommand::Read(name)]);
            }
            SearchStep::Ping(owner) => {
                let is_there = self
                    .place(owner)
                    .is_some_and(|other| !self.is_frozen(other) && self.can_talk(entry.0, other.0));
                let wait = if is_there { 1 } else { CONNECT };
                let result = if is_there { HopResult::Answered } else { HopResult::Unreachable };
                self.requests[request].is_pinging = true;
                self.at(self.now + wait, Event::Hop(request, result));
            }
            SearchStep::Take(expected, not_after) => {
                self.nodes[entry.0].taking.insert(name.clone());
                let (name, by) = (name.clone(), entry.1);
                let take =
                    StoreCommand::Take { name: name.clone(), expected, by, not_after, keep: KEEP };
                let commands = vec![take, StoreCommand::ReadLog(name)];
                self.send(entry, Purpose::Take(request, expected), commands);
            }
            SearchStep::End(end) => {
                let end = match end {
                    SearchEnd::Taken(_) => return self.arrive(entry, request),
                    SearchEnd::Gone => Outcome::Gone,
                    SearchEnd::Unavailable if self.mutation == Mutation::GoneInDoubt => {
                        Outcome::Gone
                    }
                    SearchEnd::Unavailable => Outcome::Unavailable,
                    SearchEnd::OutcomeUnknown => Outcome::Unknown,
                    SearchEnd::Answered => return Ok(()),
                };
                return self.finish(request, end);
            }
        }
        Ok(())
    }

    fn place(&self, id: ReplicaId) -> Option<Process> {
        (0..SLOTS).map(|slot| (slot, id)).find(|&process| self.runs(process))
    }

    fn forward(&mut self, request: usize, owner: ReplicaId) {
        let entry = self.requests[request].entry;
        match self.place(owner) {
            None => self.after(0, 4, Event::Hop(request, HopResult::Dead)),
            Some(other) if !self.can_talk(entry.0, other.0) => {
                self.at(self.now + CONNECT, Event::Hop(request, HopResult::Unreachable));
            }
            Some(other) => {
                self.requests[request].at = Some(other);
                self.after(0, 4, Event::Arrive(other, request));
                self.after(100, 400, Event::Watch(request));
            }
        }
    }

    pub(super) fn hop_over(&mut self, request: usize, mut result: HopResult) -> Result<(), String> {
        if self.requests[request].is_over {
            return Ok(());
        }
        if std::mem::take(&mut self.requests[request].is_pinging) {
            return self.go_on(request, |search| search.handle_ping(result == HopResult::Answered));
        }
        if result == HopResult::Broken && self.mutation == Mutation::SendAgain {
            result = HopResult::Dead;
        }
        self.go_on(request, |search| search.handle_hop(result))
    }

    /// The entry looks whether the owner that has its request is still there.
    pub(super) fn watch(&mut self, request: usize) -> Result<(), String> {
        let Request { entry, at, is_over, silent_since, is_shown, .. } = &self.requests[request];
        let Some(owner) = at.filter(|_| !is_over) else { return Ok(()) };
        let is_silent = self.is_frozen(owner) || !self.can_talk(entry.0, owner.0);
        let since = is_silent.then(|| silent_since.unwrap_or(self.now));
        let is_broken = !self.runs(owner) || since.is_some_and(|since| since + LEASE <= self.now);
        let is_shown = *is_shown;
        self.requests[request].silent_since = since;
        if !is_silent {
            // The owner is there, and at work.
            self.requests[request].begun = self.now;
        }
        if !is_broken {
            self.after(100, 400, Event::Watch(request));
            return Ok(());
        }
        self.requests[request].at = None;
        if is_shown || matches!(self.requests[request].wish, Wish::Resume(_)) {
            return self.finish(request, Outcome::Closed);
        }
        self.hop_over(request, HopResult::Broken)
    }

    fn handle_claim(
        &mut self,
        process: Process,
        request: usize,
        sent: Instant,
        replies: Option<Vec<StoreReply>>,
    ) -> Result<(), String> {
        if self.requests[request].is_over {
            return Ok(());
        }
        self.handle_renewed(process, sent, replies.as_deref());
        let Some(replies) = replies else {
            return self.go_on(request, OwnerSearch::handle_store_away);
        };
        let (StoreReply::Members { clock, .. }, StoreReply::Claim(stored)) =
            (&replies[0], &replies[1])
        else {
            return Err("no claim".to_owned());
        };
        self.weigh(process, request, stored.as_ref().map(|stored| stored.claim), *clock)
    }

    fn weigh(
        &mut self,
        (slot, id): Process,
        request: usize,
        claim: Option<Claim>,
        clock: Duration,
    ) -> Result<(), String> {
        let name = &self.requests[request].session;
        let node = &self.nodes[slot];
        if node.sessions.contains_key(name) || node.taking.contains(name) {
            // Another request has brought it here meanwhile.
            return self.arrive((slot, id), request);
        }
        let owner = claim.and_then(|claim| claim.owner);
        let has_lease = owner.is_some_and(|owner| node.holdings.members().contains_key(&owner));
        let store = (node.holdings.is_settled(), clock);
        self.go_on(request, |search| search.handle_claim(claim, has_lease, store))
    }

    fn handle_take(
        &mut self,
        process: Process,
        request: usize,
        expected: Claim,
        (sent, replies): (Instant, Option<Vec<StoreReply>>),
    ) -> Result<(), String> {
        let name = self.requests[request].session.clone();
        self.nodes[process.0].taking.remove(&name);
        let Some(replies) = replies else {
            return self.go_on(request, OwnerSearch::handle_store_away);
        };
        match (&replies[0], &replies[1]) {
            (StoreReply::Taken(stored), StoreReply::Log(log)) => {
                let epoch = stored.claim.epoch;
                if epoch != expected.epoch.next() && self.mutation == Mutation::None {
                    return Err("a take skips no epoch".to_owned());
                }
                let held = self.nodes[process.0].holdings.epoch(&name);
                if held.is_none_or(|held| held < epoch) {
                    self.restore(process, &name, epoch, (sent, log.clone()))?;
                }
                self.go_on(request, |search| search.handle_taken(epoch))
            }
            (StoreReply::Claim(_), _) => self.go_on(request, OwnerSearch::handle_not_taken),
            _ => Err("a take was answered with something else".to_owned()),
        }
    }

    /// Builds a session from what the store has; calls that were owed are answered.
    fn restore(
        &mut self,
        process: Process,
        name: &ClaimName,
        epoch: Epoch,
        (sent, history): (Instant, Vec<LogEntry>),
    ) -> Result<(), String> {
        let mut streams: BTreeMap<u64, OwnedStream> = BTreeMap::new();
        for entry in &history {
            match StreamEvent::decode(&entry.payload) {
                Some(StreamEvent::Answer { stream, text }) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    streams.entry(stream).or_default().answer = Some(text);
                }
                Some(event) => _ = streams.entry(event.stream()).or_default(),
                None => {}
            }
        }
        let owed = unanswered(&history);
        let (log, gated) = (StreamLog::new(epoch), Vec::new());
        let node = &mut self.nodes[process.0];
        node.holdings.hold(name.clone(), epoch, Some(sent));
        node.sessions.insert(name.clone(), OwnedSession { epoch, log, history, gated, streams });
        for (stream, _) in owed {
            let text = "gone".to_owned();
            let event = StreamEvent::Answer { stream, text: Bytes::from_static(b"gone") };
            self.push(process, name, &event, Shown::Answer { stream, text })?;
        }
        Ok(())
    }

    fn created(
        &mut self,
        process: Process,
        request: usize,
        (sent, is_kept): (Option<Instant>, bool),
    ) -> Result<(), String> {
        let Request { client, session, is_over, .. } = &self.requests[request];
        let (client, name) = (*client, session.clone());
        if *is_over {
            return Ok(());
        }
        let epoch = Epoch::FIRST;
        let node = &mut self.nodes[process.0];
        node.holdings.hold(name.clone(), epoch, sent);
        let (log, history) = (StreamLog::new(epoch), Vec::new());
        let (gated, streams) = (Vec::new(), BTreeMap::new());
        node.sessions.insert(name.clone(), OwnedSession { epoch, log, history, gated, streams });
        let client = &mut self.clients[client];
        (client.session, client.at_risk, client.excused) = (Some(name), !is_kept, false);
        self.finish(request, Outcome::Answer)
    }
}
