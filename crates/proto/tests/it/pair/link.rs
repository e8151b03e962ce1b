//! Links that split, repeat, break and are resumed, or are lost for good.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_proto::exchange::{Carrier, Lane};
use switchboard_proto::failure::Failure;
use switchboard_proto::framing;
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message, parse_one};
use switchboard_proto::method;
use switchboard_proto::patch;
use switchboard_proto::server::{Frame, ServerHalf};

use super::world::{Fault, Queue, Thing, World};

impl World {
    pub(super) fn put(&mut self, queue: Queue, thing: Thing) {
        self.queues.entry(queue).or_default().push_back(thing);
    }

    /// Puts bytes in pieces of any size.
    fn put_split(&mut self, queue: Queue, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let most = rest.len().min(400) as u64;
            let (piece, after) =
                rest.split_at(1 + usize::try_from(self.roll(most)).expect("small"));
            self.put(queue, Thing::Bytes(piece.to_vec()));
            rest = after;
        }
    }

    pub(super) fn put_line(&mut self, queue: Queue, message: &Message) {
        let mut bytes = Vec::new();
        framing::encode_line(message.text(), &mut bytes);
        self.put_split(queue, &bytes);
    }

    fn put_event(&mut self, queue: Queue, event: &framing::Outgoing<'_>) {
        let mut bytes = Vec::new();
        if self.roll(4) == 0 {
            framing::encode_comment("ping", &mut bytes);
        }
        framing::encode_event(event, &mut bytes);
        self.put_split(queue, &bytes);
    }

    pub(super) fn put_frame(&mut self, of: usize, lane: Lane, frame: Frame) {
        let queue = Queue::NearDown(of, lane);
        match frame {
            _ if self.ends[of].is_gone || self.ends[of].broken.contains(&lane) => {}
            Frame::Answer { text, .. } => self.put(queue, Thing::Whole(whole(text))),
            Frame::Accepted | Frame::Begin { prime: None } => {}
            Frame::Begin { prime: Some(prime) } => {
                let id = prime.event.to_string();
                let retry = Some(prime.retry_ms);
                let event =
                    framing::Outgoing { id: Some(&id), retry, ..framing::Outgoing::default() };
                self.put_event(queue, &event);
            }
            Frame::Message { text, .. } if self.near == Carrier::Pipe => {
                self.put_line(queue, &whole(text));
            }
            Frame::Message { event, text } => {
                let id = event.map(|event| event.to_string());
                let event = framing::Outgoing {
                    id: id.as_deref(),
                    data: &text,
                    ..framing::Outgoing::default()
                };
                self.put_event(queue, &event);
            }
            Frame::End => self.put(queue, Thing::End),
        }
    }

    pub(super) fn lines_of(&mut self, queue: Queue, bytes: &[u8]) -> Vec<Message> {
        let decoder = self.lines.entry(queue).or_insert_with(|| framing::LineDecoder::new(1 << 20));
        decoder.push(bytes);
        let lines = std::iter::from_fn(|| decoder.next_line());
        lines.map(|line| parse_one(line.expect("short")).expect("a message")).collect()
    }

    fn events_of(&mut self, queue: Queue, bytes: &[u8]) -> (Vec<Message>, Option<Arc<str>>) {
        let decoder =
            self.events.entry(queue).or_insert_with(|| framing::EventDecoder::new(1 << 20));
        decoder.push(bytes);
        let (mut messages, mut last) = (Vec::new(), None);
        while let Some(event) = decoder.next_event() {
            let event = event.expect("short");
            last = event.id.clone().or(last);
            if event.is_message() {
                messages.push(parse_one(event.data).expect("a message"));
            }
        }
        (messages, last)
    }

    /// What a client can read of what has come.
    pub(super) fn messages_for(&mut self, of: usize, lane: Lane, thing: Thing) -> Vec<Message> {
        match thing {
            Thing::Whole(message) => vec![message],
            Thing::Bytes(bytes) if self.near == Carrier::Pipe => {
                self.lines_of(Queue::NearDown(of, lane), &bytes)
            }
            Thing::Bytes(bytes) => {
                if self.cuts_near(of, lane) {
                    return Vec::new();
                }
                let (messages, last) = self.events_of(Queue::NearDown(of, lane), &bytes);
                self.ends[of].last_ids.extend(last.map(|last| (lane, last)));
                messages
            }
            Thing::End => Vec::new(),
            Thing::Listen(_) | Thing::Round(..) => panic!("a server does not listen"),
        }
    }

    /// Cuts a stream that has shown how to come back; sometimes nobody notices.
    fn cuts_near(&mut self, of: usize, lane: Lane) -> bool {
        let is_known = self.ends[of].last_ids.contains_key(&lane);
        if self.modern.0 || !is_known || self.roll(12) != 0 {
            return false;
        }
        let last = self.ends[of].last_ids.remove(&lane);
        self.ends[of].broken.insert(lane);
        self.queues.remove(&Queue::NearDown(of, lane));
        if self.roll(2) == 0 {
            self.ends[of].front.handle_closed(lane);
        }
        let again = self.fresh_lane();
        self.put(Queue::NearUp(of, again), Thing::Listen(last));
        true
    }

    /// A message arrives by a pipe.
    pub(super) fn reaches_child(&mut self, message: &Message) {
        for (_, message) in self.server.handle(message) {
            self.put_line(Queue::FarDown(Lane::MAIN), &message);
        }
    }

    /// A message arrives by a lane. The server tells calls apart by their lanes: ids of
    /// several clients may be equal.
    pub(super) fn reaches_endpoint(&mut self, lane: Lane, message: &Message) {
        let mut message = message.clone();
        if let (Kind::Request, Some(id)) = (message.kind(), message.id().cloned()) {
            message = message.with_id(&Id::from(lane.0));
            self.carried.insert(lane, (Carried::of(&message), id));
        } else if let Some(cancelled) = message.id_in(Member::RequestId) {
            let meant = self.carried.iter().filter(|(_, (_, id))| *id == cancelled);
            // A server ignores what it does not know: the call may not have arrived.
            let Some(lane) = meant.map(|(lane, _)| lane.0).max() else { return };
            message = message.with(Member::RequestId, lane.to_string());
        }
        for (of, mut message) in self.server.handle(&message) {
            let lane = of.and_then(|id| id.to_string().parse().ok()).map_or(Lane::MAIN, Lane);
            if message.is_response() {
                message = message.with_id(&self.carried[&lane].1);
            }
            self.put_far(lane, message);
        }
    }

    /// A server that can be resumed keeps what it says.
    fn put_far(&mut self, lane: Lane, message: Message) {
        let history = &mut self.history.entry(lane).or_default().0;
        history.push(message);
        let at = history.len() - 1;
        // A notification has no name by which it could be known again.
        let is_named = history[at].kind() != Kind::Notification;
        self.put_far_again(lane, at);
        if is_named && !self.modern.1 && self.roll(6) == 0 {
            self.put_far_again(lane, at);
        }
    }

    fn put_far_again(&mut self, lane: Lane, at: usize) {
        let message = self.history[&lane].0[at].clone();
        let id = (at + 1).to_string();
        let id = (!self.modern.1).then_some(id.as_str());
        let event = framing::Outgoing { id, data: message.text(), ..framing::Outgoing::default() };
        self.put_event(Queue::FarDown(lane), &event);
    }

    /// What the client half can read of what has come.
    pub(super) fn messages_of(&mut self, lane: Lane, bytes: &[u8]) -> Vec<Message> {
        let queue = Queue::FarDown(lane);
        if self.far == Carrier::Pipe {
            return self.lines_of(queue, bytes);
        }
        if self.cuts_far(lane) {
            return Vec::new();
        }
        let (messages, last) = self.events_of(queue, bytes);
        if let (Some(last), Some(history)) = (last, self.history.get_mut(&lane)) {
            history.1 = last.parse().expect("an id of ours");
        }
        messages
    }

    /// Cuts a stream of a legacy server, and resumes it where it broke; some
    /// servers then repeat what had come last.
    fn cuts_far(&mut self, lane: Lane) -> bool {
        let come = self.history.get(&lane).map_or(0, |history| history.1);
        if self.modern.1 || come == 0 || self.roll(8) != 0 {
            return false;
        }
        self.queues.remove(&Queue::FarDown(lane));
        self.events.remove(&Queue::FarDown(lane));
        let sent = self.history[&lane].0.len();
        let is_named = self.history[&lane].0[come - 1].kind() != Kind::Notification;
        let repeats = usize::from(is_named && self.roll(2) == 0);
        for at in come - repeats..sent {
            self.put_far_again(lane, at);
        }
        true
    }

    /// Something is lost that does not come back. What moved by `queue` may be lost too.
    pub(super) fn hurts(&mut self, queue: Queue) -> bool {
        let is_over = self.is_hurt || self.afterwards > 0;
        if is_over || self.fault == Fault::Nothing || self.roll(self.calm) != 0 {
            return false;
        }
        match (self.fault, queue) {
            (Fault::Gone, _) => self.lose_client(),
            (_, Queue::FarUp(_) | Queue::FarDown(_)) if self.far == Carrier::Pipe => {
                self.lose_server();
                self.back.handle_lost(&gone(), self.now);
            }
            (_, Queue::FarDown(lane)) if lane != Lane::MAIN => self.lose_stream(lane),
            (_, Queue::FarUp(lane)) if !self.modern.1 => return self.lose_session(lane),
            _ => return false,
        }
        true
    }

    /// Everything that is open may suffer.
    fn mark(&mut self) {
        self.is_hurt = true;
        for end in &mut self.ends {
            end.hit = end.client.open();
        }
    }

    /// What travels on this lane may suffer, and nothing else.
    fn mark_lane(&mut self, lane: Lane) {
        self.mark();
        let (carried, _) = &self.carried[&lane];
        for end in &mut self.ends {
            let name = end.client.name();
            end.hit.retain(|stream| carried.is_about(name, stream));
        }
    }

    fn lose_server(&mut self) {
        self.mark();
        self.server.lose();
        self.history.clear();
        let is_far = |queue: &Queue| matches!(queue, Queue::FarUp(_) | Queue::FarDown(_));
        self.queues.retain(|queue, _| !is_far(queue));
        self.lines.retain(|queue, _| !is_far(queue));
        self.events.retain(|queue, _| !is_far(queue));
    }

    /// The connection of one call ends without its answer.
    fn lose_stream(&mut self, lane: Lane) {
        self.mark_lane(lane);
        self.queues.remove(&Queue::FarDown(lane));
        self.events.remove(&Queue::FarDown(lane));
        if self.modern.1 {
            self.server.cancel(&Id::from(lane.0));
        }
        self.back.handle_unanswered(lane, &gone(), self.now);
    }

    /// A legacy server has forgotten its session when a call reaches it, and
    /// whatever else it was busy with.
    fn lose_session(&mut self, lane: Lane) -> bool {
        let Some(Thing::Whole(message)) = self.queues[&Queue::FarUp(lane)].front() else {
            return false;
        };
        if message.kind() != Kind::Request || message.method() == method::INITIALIZE {
            return false;
        }
        let others: Vec<Lane> = self.history.keys().copied().filter(|it| *it != lane).collect();
        self.queues.remove(&Queue::FarUp(lane));
        let is_sent = |it: &Queue, _: &mut _| matches!(it, Queue::FarUp(_));
        let sent: Vec<_> = self.queues.extract_if(.., is_sent).collect();
        self.lose_server();
        // What is on its way arrives all the same.
        self.queues.extend(sent);
        for other in others {
            self.back.handle_unanswered(other, &gone(), self.now);
        }
        self.back.handle_session_over(lane, self.now);
        true
    }

    /// The first client hangs up and does not come back.
    fn lose_client(&mut self) {
        self.mark();
        let is_theirs =
            |queue: &Queue| matches!(queue, Queue::NearUp(0, _) | Queue::NearDown(0, _));
        self.queues.retain(|queue, _| !is_theirs(queue));
        let end = &mut self.ends[0];
        end.is_gone = true;
        match &mut end.front {
            ServerHalf::Modern(front) if self.near == Carrier::Http => {
                // Each request is a client of its own, and is forgotten when it is closed.
                for &lane in end.lanes.values() {
                    front.handle_closed(lane);
                }
                front.handle_timeout(self.now + Duration::from_mins(2));
            }
            front => {
                front.end();
                self.back.forget_owner(1, self.now);
            }
        }
    }
}

/// What a lane to the server is there for.
pub(super) struct Carried {
    /// Whose it is; none if it serves all.
    whose: Option<String>,
    /// What their streams are called, or begin with.
    streams: Vec<String>,
    is_whole: bool,
}

impl Carried {
    fn of(request: &Message) -> Self {
        let params = request.payload().unwrap_or_default();
        let member = |path: &[&str]| patch::string(params, path).map(Cow::into_owned);
        let whose = member(&["_meta", "of"]);
        let of_uri = member(&["uri"]).and_then(|it| Some(it.split_once('/')?.1.to_owned()));
        let (whose, streams, is_whole) = match request.method() {
            "tools/call" => (whose, vec![member(&["name"]).expect("a tool")], true),
            "tools/list" => {
                let more = if member(&["cursor"]).is_some() { "list more" } else { "list" };
                (whose, vec![more.to_owned()], true)
            }
            "resources/subscribe" | "resources/unsubscribe" | "subscriptions/listen" => {
                let streams = ["listen", "unwatch", "watch"].map(str::to_owned);
                (of_uri, streams.into(), false)
            }
            // Records come only once the level is set.
            "logging/setLevel" => (None, ["level", "log"].map(str::to_owned).into(), true),
            "ping" => (None, vec!["ping".to_owned()], true),
            // Everybody waits for a greeting.
            _ => (None, vec![String::new()], false),
        };
        Self { whose, streams, is_whole }
    }

    fn is_about(&self, name: &str, stream: &str) -> bool {
        let fits = |it: &String| if self.is_whole { it == stream } else { stream.starts_with(it) };
        self.whose.as_deref().is_none_or(|whose| whose == name) && self.streams.iter().any(fits)
    }
}

fn gone() -> Failure {
    Failure::translation("it is gone")
}

fn whole(text: Bytes) -> Message {
    parse_one(text).expect("what we send is a message")
}
