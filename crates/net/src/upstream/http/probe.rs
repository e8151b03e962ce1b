//! The question which era a server speaks, put to an HTTP endpoint.
//!
//! Apart from the calls, because the answer is in the status as much as in the
//! body, and a call's owner gets to see only the latter (NEG-5, NEG-6).

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use switchboard_proto::client::probe::{self, Reply};
use switchboard_proto::failure::Failure;
use switchboard_proto::header::Mirror;
use switchboard_proto::jsonrpc::{self, Message};
use switchboard_proto::revision::Revision;
use switchboard_proto::sse::EventDecoder;

use super::Refused;
use super::link::{Link, Session};
use crate::http::{content_type, is_event_stream};
use crate::upstream::Upstream;

/// What came of the question.
pub(crate) struct Probed {
    pub(crate) reply: Reply,
    /// The answer, if it is one.
    pub(crate) answer: Option<Message>,
    /// What came is the stream of an HTTP+SSE server.
    pub(crate) is_old: bool,
    /// Why there is no answer, for whoever cannot go on.
    pub(crate) failure: Option<Failure>,
}

impl Probed {
    fn answered(status: StatusCode, answer: Message, failure: Option<Failure>) -> Self {
        let reply = probe::reply(Some(status.as_u16()), &answer);
        Self { reply, answer: Some(answer), is_old: false, failure }
    }

    fn unanswered(status: StatusCode, is_old: bool, failure: Failure) -> Self {
        let reply = Reply::Http { status: status.as_u16() };
        Self { reply, answer: None, is_old, failure: Some(failure) }
    }

    fn broken(failure: Failure) -> Self {
        Self { reply: Reply::Broken, answer: None, is_old: false, failure: Some(failure) }
    }
}

impl Upstream {
    /// Asks an endpoint which era it speaks.
    pub(crate) async fn probe(&self, question: &Message) -> Probed {
        let Some(link) = self.link() else { return Probed::broken(Failure::CLOSED) };
        let asking = self.send(link, |link| {
            let mut request = link.post(question.text(), &Session::default());
            let version = Revision::NEWEST_MODERN.as_str();
            Mirror { version, method: question.method(), name: None }.write(request.headers_mut());
            request
        });
        match asking.await {
            Ok(response) => self.read_probe(link, response).await,
            Err(why) => Probed::broken(why),
        }
    }

    async fn read_probe(&self, link: &Link, response: Response<Incoming>) -> Probed {
        let status = response.status();
        if !status.is_success() {
            let refused = Refused::read(response, &link.last_shown()).await;
            let failure = refused.failure(self);
            return match refused.error() {
                Some(error) => Probed::answered(status, error.clone(), Some(failure)),
                None => Probed::unanswered(status, false, failure),
            };
        }
        let media = content_type(response.headers()).unwrap_or_default().to_owned();
        let first = if is_event_stream(&media) {
            self.first_answer(response.into_body()).await
        } else {
            let body = Limited::new(response.into_body(), self.limits.message).collect().await;
            body.map_or(First::Nothing, |body| First::of(body.to_bytes()))
        };
        let failure = Failure::NotMcp { status: status.as_u16(), media: None };
        match first {
            First::Answer(answer) => Probed::answered(status, answer, None),
            First::Endpoint => Probed::unanswered(status, true, failure),
            First::Nothing => Probed::unanswered(status, false, failure),
        }
    }

    /// The first thing on an event stream that tells something.
    async fn first_answer(&self, mut body: Incoming) -> First {
        let mut decoder = EventDecoder::new(self.limits.message);
        while let Some(Ok(frame)) = body.frame().await {
            decoder.push(frame.data_ref().map_or(&[], |data| &data[..]));
            while let Some(event) = decoder.next_event() {
                let Ok(event) = event else { continue };
                if event.name.as_deref() == Some("endpoint") {
                    return First::Endpoint;
                }
                if let first @ First::Answer(_) = First::of(event.data) {
                    return first;
                }
            }
        }
        First::Nothing
    }
}

/// What a body begins with.
enum First {
    Answer(Message),
    /// Where to post to: this is the stream of the oldest transport.
    Endpoint,
    Nothing,
}

impl First {
    fn of(text: Bytes) -> Self {
        let message = jsonrpc::parse_one(text).ok().filter(Message::is_response);
        message.map_or(Self::Nothing, Self::Answer)
    }
}
