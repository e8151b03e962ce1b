//! Transports for the Model Context Protocol.
