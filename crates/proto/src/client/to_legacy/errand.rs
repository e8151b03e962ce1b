//! Our own calls at a legacy server, and what each is for.

use crate::client::Ticket;

/// What we open a call at the server for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Errand<T> {
    Call {
        number: u64,
        ticket: T,
    },
    Discover(T),
    /// Of a client that speaks the server's own era.
    Native(T),
    /// To have been greeted before a listen is acknowledged.
    Listen(u64),
    Watch {
        listen: u64,
        uri: Box<str>,
        /// The client that listens.
        ticket: T,
    },
    Unwatch {
        listen: u64,
    },
    /// To know which tools may be tasks.
    Tools,
    /// To know what a task comes to.
    TaskEnd(u64),
    /// To be there again for who listens.
    Return,
    Level,
    /// To tell it something; nobody waits for the answer.
    Aside,
}

impl<T: Ticket> Ticket for Errand<T> {
    fn owner(&self) -> u64 {
        match self {
            Self::Call { ticket, .. } | Self::Discover(ticket) | Self::Native(ticket) => {
                ticket.owner()
            }
            // Each listen watches for itself.
            Self::Listen(number)
            | Self::Watch { listen: number, .. }
            | Self::Unwatch { listen: number } => owner(*number),
            Self::Tools | Self::TaskEnd(_) | Self::Return | Self::Level | Self::Aside => u64::MAX,
        }
    }

    fn awaits_dropped(&self) -> bool {
        matches!(self, Self::Native(ticket) if ticket.awaits_dropped())
    }

    fn principal(&self) -> &[u8] {
        match self {
            Self::Call { ticket, .. }
            | Self::Watch { ticket, .. }
            | Self::Discover(ticket)
            | Self::Native(ticket) => ticket.principal(),
            _ => b"",
        }
    }
}

/// Who watches for a listen.
pub(super) fn owner(listen: u64) -> u64 {
    listen | OURS
}

/// Apart from the numbers of clients.
const OURS: u64 = 1 << 63;
