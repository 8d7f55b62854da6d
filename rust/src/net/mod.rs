//! Framing and sockets: one wire under the server and the client.
