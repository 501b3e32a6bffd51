//! HTTP/2 [RFC 9113], as a hub of Mercure has it: messages are posted, each in its own stream, and a subscriber
//! has one stream of server-sent events that does not end: <https://mercure.rocks/spec>. Payloads are text there, so
//! that bytes go as base64.

mod frames;

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use frames::{
    ACK, DATA, END_HEADERS, END_STREAM, FRAME_MAX, Frame, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    field, frame, known, status,
};

use super::http::escaped;
use super::{Driver, Problem, Role, Sink};
use crate::load::plan::Credentials;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The default path of hubs.
const USUAL_PATH: &str = ".well-known/mercure";
/// Bytes that the broker may send before a window update.
const WINDOW: u32 = 8 * 1024 * 1024;
/// Bytes that may be sent at first, on each stream and on all together [RFC 9113, 6.5.2].
const FIRST_WINDOW: u32 = 65_535;
/// Streams that are open at a time, where the broker allows more.
const MOST_STREAMS: u32 = 1_000;
/// The last number of a stream.
const LAST_STREAM: u32 = 0x7FFF_FFFF;
/// The longest event that is taken, in bytes.
const EVENT_MAX: usize = 128 * 1024 * 1024;

// Settings.
const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A message that is posted and not answered.
struct Post {
    window: i64,
    /// The rest of the body that did not fit the windows.
    rest: Vec<u8>,
    status: u16,
}

/// A connection.
pub(super) struct Http2 {
    /// The head of every request.
    head: Vec<u8>,
    /// The text before a message in the body of a post.
    form: String,
    acknowledged: bool,
    role: Role,
    is_ready: bool,
    next_stream: u32,
    most_streams: u32,
    /// The broker's window for new streams, and for the connection.
    stream_window: u32,
    window: i64,
    posts: BTreeMap<u32, Post>,
    /// Posts that wait for room.
    waiting: u32,
    /// Bytes received since the last window update.
    untold: u32,
    /// The received part of incomplete events.
    events: Vec<u8>,
    event: Vec<u8>,
}

/// The address of the hub, and the credentials.
pub(super) struct TopicTarget<'a> {
    /// Host and port.
    pub(super) authority: String,
    /// Empty means the usual one.
    pub(super) path: &'a str,
    /// The password is the publisher's token.
    pub(super) credentials: Option<&'a Credentials>,
    /// Whether it is reached within TLS.
    pub(super) is_secured: bool,
}

impl Http2 {
    pub(super) fn new(topic: &str, place: &TopicTarget<'_>, acknowledged: bool, role: Role) -> Self {
        let path = if place.path.is_empty() { USUAL_PATH } else { place.path };
        let mut head = Vec::new();
        let (get, post, http, https, authority, of_path) = (2, 3, 6, 7, 1, 4);
        known(if role == Role::Publish { post } else { get }, &mut head);
        known(if place.is_secured { https } else { http }, &mut head);
        field(authority, &place.authority, &mut head);
        let topic = escaped(topic);
        if role == Role::Publish {
            field(of_path, &format!("/{path}"), &mut head);
            let content_type = 31;
            field(content_type, "application/x-www-form-urlencoded", &mut head);
        } else {
            field(of_path, &format!("/{path}?topic={topic}"), &mut head);
            let accept = 19;
            field(accept, "text/event-stream", &mut head);
        }
        if let Some(known) = place.credentials {
            let authorization = 23;
            field(authorization, &format!("Bearer {}", known.password), &mut head);
        }
        Self {
            head,
            form: format!("topic={topic}&data="),
            acknowledged,
            role,
            is_ready: false,
            next_stream: 1,
            most_streams: MOST_STREAMS,
            stream_window: FIRST_WINDOW,
            window: i64::from(FIRST_WINDOW),
            posts: BTreeMap::new(),
            waiting: 0,
            untold: 0,
            events: Vec::new(),
            event: Vec::new(),
        }
    }

    /// Begins a stream; which one.
    fn ask(&mut self, is_all: bool, out: &mut Vec<u8>) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let flags = if is_all { END_HEADERS | END_STREAM } else { END_HEADERS };
        frame(HEADERS, flags, stream, &self.head, out);
        stream
    }

    /// Sends as much of the posts as the windows allow.
    fn send_rest(&mut self, out: &mut Vec<u8>) {
        if self.waiting == 0 {
            return;
        }
        for (stream, post) in self.posts.iter_mut().filter(|(_, post)| !post.rest.is_empty()) {
            self.window -= post.send(*stream, self.window, out);
            self.waiting -= u32::from(post.rest.is_empty());
        }
    }

    fn on_frame(&mut self, read: &Frame<'_>, out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        match read.kind {
            SETTINGS if read.flags & ACK == 0 => self.on_settings(read.payload, out),
            PING if read.flags & ACK == 0 => frame(PING, ACK, 0, read.payload, out),
            WINDOW_UPDATE => {
                let room = i64::from(read.number()? & LAST_STREAM);
                if read.stream == 0 {
                    self.window += room;
                } else if let Some(post) = self.posts.get_mut(&read.stream) {
                    post.window += room;
                }
                self.send_rest(out);
            }
            HEADERS => self.on_head(read, sink)?,
            DATA => {
                self.make_room(read, out);
                if self.role == Role::Subscribe {
                    self.on_events(read.content()?, sink)?;
                }
                self.on_end(read, sink)?;
            }
            RST_STREAM if self.posts.contains_key(&read.stream) => {
                self.forget(read.stream);
                sink.refused(1);
            }
            RST_STREAM => return Err(Problem::new("the broker ends the stream of events; see its log")),
            GOAWAY => {
                let said = String::from_utf8_lossy(read.payload.get(8..).unwrap_or_default());
                return Err(Problem::new(format!("the broker ends the connection: {said}; see its log")));
            }
            _ => {}
        }
        Ok(())
    }

    fn on_settings(&mut self, settings: &[u8], out: &mut Vec<u8>) {
        for setting in settings.as_chunks::<6>().0 {
            let [a, b, value @ ..] = *setting;
            let value = u32::from_be_bytes(value);
            match u16::from_be_bytes([a, b]) {
                MAX_CONCURRENT_STREAMS => self.most_streams = value.min(MOST_STREAMS),
                INITIAL_WINDOW_SIZE => {
                    // It holds for streams that are open, too [RFC 9113, 6.9.2].
                    let more = i64::from(value) - i64::from(self.stream_window);
                    for post in self.posts.values_mut() {
                        post.window += more;
                    }
                    self.stream_window = value;
                }
                _ => {}
            }
        }
        frame(SETTINGS, ACK, 0, &[], out);
        self.is_ready |= self.role == Role::Publish;
        self.send_rest(out);
    }

    fn on_head(&mut self, read: &Frame<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let is_trailer = self.posts.get(&read.stream).map_or(self.is_ready, |post| post.status != 0);
        if !is_trailer {
            let status = status(read.content()?)?;
            match status {
                // More follows.
                100..=199 => return Ok(()),
                401 | 403 => return Err(refusal(status)),
                200..=299 if self.role == Role::Subscribe => self.is_ready = true,
                _ if self.role == Role::Subscribe => return Err(refusal(status)),
                _ => {}
            }
            if let Some(post) = self.posts.get_mut(&read.stream) {
                post.status = status;
            }
        }
        self.on_end(read, sink)
    }

    /// Handles the end of a frame.
    fn on_end(&mut self, read: &Frame<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
        if !read.is_last() {
            return Ok(());
        }
        if self.role == Role::Subscribe {
            return Err(Problem::new("the broker ends the stream of events; see its log"));
        }
        match self.forget(read.stream) {
            Some(200..=299) => sink.acknowledged(u64::from(self.acknowledged)),
            Some(_) => sink.refused(1),
            None => {}
        }
        Ok(())
    }

    /// A post is answered; its status.
    fn forget(&mut self, stream: u32) -> Option<u16> {
        let post = self.posts.remove(&stream)?;
        self.waiting -= u32::from(!post.rest.is_empty());
        Some(post.status)
    }

    /// Sends window updates from time to time.
    fn make_room(&mut self, read: &Frame<'_>, out: &mut Vec<u8>) {
        self.untold += read.payload.len() as u32;
        if self.untold >= WINDOW / 4 {
            let room = std::mem::take(&mut self.untold).to_be_bytes();
            frame(WINDOW_UPDATE, 0, 0, &room, out);
            if self.role == Role::Subscribe {
                frame(WINDOW_UPDATE, 0, read.stream, &room, out);
            }
        }
    }

    /// Takes lines of events: an empty one ends an event.
    fn on_events(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Problem> {
        self.events.extend_from_slice(bytes);
        let mut taken = 0;
        while let Some(end) = self.events[taken..].iter().position(|byte| *byte == b'\n') {
            let line = &self.events[taken..taken + end];
            taken += end + 1;
            if let Some(data) = line.strip_prefix(b"data:") {
                self.event.extend_from_slice(data.trim_ascii());
            } else if line.trim_ascii().is_empty() && !self.event.is_empty() {
                // A message that is not base64 is not ours, and counted as such.
                sink.message(&BASE64URL_NOPAD.decode(&self.event).unwrap_or_default());
                self.event.clear();
            }
        }
        self.events.drain(..taken);
        if self.events.len() + self.event.len() > EVENT_MAX {
            return Err(Problem::new("an event does not end"));
        }
        Ok(())
    }
}

impl Post {
    /// Sends as much as the windows allow; returns the size.
    fn send(&mut self, stream: u32, window: i64, out: &mut Vec<u8>) -> i64 {
        let room = usize::try_from(self.window.min(window)).unwrap_or(0).min(self.rest.len());
        let mut sent = 0;
        while sent < room {
            let end = room.min(sent + FRAME_MAX);
            let flags = if end == self.rest.len() { END_STREAM } else { 0 };
            frame(DATA, flags, stream, &self.rest[sent..end], out);
            sent = end;
        }
        self.rest.drain(..sent);
        let sent = i64::try_from(sent).unwrap_or(i64::MAX);
        self.window -= sent;
        sent
    }
}

/// The reason of a refusal, with a remedy.
fn refusal(status: u16) -> Problem {
    let hint = match status {
        401 | 403 => "check the token: h2://NAME:TOKEN@HOST",
        404 => "check the path of the hub: h2://HOST/PATH",
        _ => "see its log",
    };
    Problem::new(format!("the broker answers {status}; {hint}"))
}

impl Driver for Http2 {
    fn opened(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        let mut settings = Vec::new();
        // Without a header table, heads are self-contained.
        for (setting, value) in [(HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, WINDOW)] {
            settings.extend_from_slice(&setting.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame(SETTINGS, 0, 0, &settings, out);
        frame(WINDOW_UPDATE, 0, 0, &(WINDOW - FIRST_WINDOW).to_be_bytes(), out);
        if self.role == Role::Subscribe {
            self.ask(true, out);
        }
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut taken = 0;
        while let Some((read, len)) = Frame::read(&bytes[taken..])? {
            self.on_frame(&read, out, sink)?;
            taken += len;
        }
        Ok(taken)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn is_full(&self) -> bool {
        self.waiting > 0 || self.posts.len() >= self.most_streams as usize || self.next_stream > LAST_STREAM
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let mut rest = self.form.clone().into_bytes();
        rest.extend_from_slice(BASE64URL_NOPAD.encode(payload).as_bytes());
        let stream = self.ask(false, out);
        let mut post = Post { window: i64::from(self.stream_window), rest, status: 0 };
        self.window -= post.send(stream, self.window, out);
        self.waiting += u32::from(!post.rest.is_empty());
        self.posts.insert(stream, post);
    }
}

#[cfg(test)]
mod secured;
#[cfg(test)]
mod tests;
