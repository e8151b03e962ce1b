//! The event that is being read, field by field.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::Event;

#[derive(Debug, Default)]
pub(super) struct Draft {
    lines: Lines,
    name: Box<str>,
    /// `Some("")` says that the stream has no id any more.
    id: Option<Arc<str>>,
    retry: Option<u64>,
}

/// The data so far. One line is by far the most common case.
#[derive(Debug, Default)]
enum Lines {
    #[default]
    None,
    One(Bytes),
    Many(BytesMut),
}

impl Draft {
    pub(super) fn add_data(&mut self, line: Bytes) {
        self.lines = match std::mem::take(&mut self.lines) {
            Lines::None => Lines::One(line),
            Lines::One(first) => {
                let mut joined = BytesMut::with_capacity(first.len() + 1 + line.len());
                joined.extend_from_slice(&first);
                Lines::Many(join(joined, &line))
            }
            Lines::Many(joined) => Lines::Many(join(joined, &line)),
        };
    }

    pub(super) fn set_name(&mut self, value: &[u8]) {
        self.name = String::from_utf8_lossy(value).into();
    }

    /// What is no text could not be sent back as it came, so it is no id.
    pub(super) fn set_id(&mut self, value: &[u8]) {
        if !value.contains(&0)
            && let Ok(id) = str::from_utf8(value)
        {
            self.id = Some(id.into());
        }
    }

    /// Anything but digits is no waiting time, nor is more than fits.
    pub(super) fn set_retry(&mut self, value: &[u8]) {
        if value.iter().all(u8::is_ascii_digit)
            && let Some(retry) = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok())
        {
            self.retry = Some(retry);
        }
    }

    /// The data so far.
    pub(super) fn data(&self) -> &[u8] {
        match &self.lines {
            Lines::None => &[],
            Lines::One(line) => line,
            Lines::Many(joined) => joined,
        }
    }

    /// What counts towards the limit.
    pub(super) fn len(&self) -> usize {
        self.data().len() + self.name.len()
    }

    /// How many bytes are kept, the id included.
    pub(super) fn held_bytes(&self) -> usize {
        self.len() + self.id.as_ref().map_or(0, |id| id.len())
    }

    /// Whether a line of `length` bytes could still be part of an event of
    /// `max` bytes. Looks at nothing but lengths, so that the answer is the
    /// same for a line that is whole and for one that is still arriving.
    pub(super) fn has_room_for(&self, length: usize, max: usize) -> bool {
        self.len().saturating_add(length) <= max.saturating_add(FIELD)
    }

    /// The blank line has come. `last_id` is that of the stream.
    pub(super) fn finish(self, last_id: &mut Option<Arc<str>>) -> Option<Event> {
        let data = match self.lines {
            Lines::None if self.id.is_none() && self.retry.is_none() => return None,
            Lines::None => Bytes::new(),
            Lines::One(line) => line,
            Lines::Many(joined) => joined.freeze(),
        };
        if let Some(id) = self.id {
            *last_id = (!id.is_empty()).then_some(id);
        }
        let name = match &*self.name {
            "" | "message" => None,
            _ => Some(self.name),
        };
        Some(Event { name, data, id: last_id.clone(), retry: self.retry })
    }
}

fn join(mut joined: BytesMut, line: &[u8]) -> BytesMut {
    joined.extend_from_slice(b"\n");
    joined.extend_from_slice(line);
    joined
}

/// What a line holds besides its value: the longest name, a colon, a space.
const FIELD: usize = "event: ".len();
