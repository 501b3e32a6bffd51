//! Shows messages on standard output.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Zoned;
use tidegate_client::{Message, TopicNameBuf};

use super::flags::output::OutputFlags;
use super::format::{RenderError, Template};

/// How many topics have a line of their own with `--watch`; further ones share the last line.
const MAX_WATCHED: usize = 10_000;

/// Moves the cursor home and clears the screen.
const CLEAR_SCREEN: &[u8] = b"\x1b[H\x1b[2J";

/// How messages are written.
#[derive(Debug)]
pub(crate) struct Printer {
    style: Style,
    end_of_line: bool,
    pretty: bool,
    watch: Option<Watch>,
}

#[derive(Debug)]
enum Style {
    Payload,
    TopicAndPayload,
    Template(Template),
}

/// The line of the screen for each topic.
#[derive(Debug, Default)]
struct Watch {
    lines: BTreeMap<TopicNameBuf, usize>,
}

/// Why a message was not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    /// It does not have the form that the format demands.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Standard output fails.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Printer {
    pub(crate) fn new(flags: &OutputFlags, watch: bool) -> Self {
        let style = match &flags.format {
            Some(template) => Style::Template(template.clone()),
            None if flags.verbose => Style::TopicAndPayload,
            None => Style::Payload,
        };
        let watch = watch.then(Watch::default);
        Self { style, end_of_line: !flags.no_newline, pretty: flags.pretty, watch }
    }

    /// Writes a message and sees to it that it gets out.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub(crate) fn print(&mut self, message: &Message, out: &mut impl Write) -> Result<(), PrintError> {
        let mut text = Vec::with_capacity(message.payload.len() + 64);
        if let Some(watch) = &mut self.watch {
            watch.place(&message.topic, &mut text);
        }
        match &self.style {
            Style::Payload => text.extend_from_slice(&message.payload),
            Style::TopicAndPayload => {
                text.extend_from_slice(message.topic.as_str().as_bytes());
                text.push(b' ');
                let empty = message.payload.is_empty();
                text.extend_from_slice(if empty { b"(null)" } else { &message.payload });
            }
            Style::Template(template) => template.render(message, &Zoned::now(), self.pretty, &mut text)?,
        }
        if self.end_of_line && self.watch.is_none() {
            text.push(b'\n');
        }
        out.write_all(&text)?;
        out.flush()?;
        Ok(())
    }
}

impl Watch {
    /// Moves the cursor to the topic's line and clears it.
    fn place(&mut self, topic: &TopicNameBuf, out: &mut Vec<u8>) {
        if self.lines.is_empty() {
            out.extend_from_slice(CLEAR_SCREEN);
        }
        let count = self.lines.len();
        let line = match self.lines.get(topic) {
            Some(line) => *line,
            None if count < MAX_WATCHED => {
                self.lines.insert(topic.clone(), count + 1);
                count + 1
            }
            None => MAX_WATCHED,
        };
        out.extend_from_slice(format!("\x1b[{line};1H\x1b[2K").as_bytes());
    }
}
