//! Messages as text, by a format.

use jiff::Zoned;
use tidegate_client::{Message, PacketId, TopicNameBuf};

use super::json::{self, Payload};
use super::render_error::RenderError;
use super::shape::Shape;
use super::time::strftime;
use super::{Field, Piece, Template};

impl Template {
    /// Appends a message that is shown at `now`. JSON spans several lines when `pretty`.
    ///
    /// # Errors
    /// When the payload is not what the format asks for; `out` then ends somewhere inside the message.
    pub(crate) fn render(
        &self,
        message: &Message,
        now: &Zoned,
        pretty: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Time(conversion) => out.extend_from_slice(strftime(conversion, now).as_bytes()),
                Piece::Field(Field::JsonText, _) => json::object(message, now, Payload::Text, pretty, out)?,
                Piece::Field(Field::JsonValue, _) => json::object(message, now, Payload::Value, pretty, out)?,
                Piece::Field(field, shape) => render_field(*field, shape, message, now, out)?,
            }
        }
        Ok(())
    }
}

fn render_field(
    field: Field,
    shape: &Shape,
    message: &Message,
    now: &Zoned,
    out: &mut Vec<u8>,
) -> Result<(), RenderError> {
    let properties = &message.properties;
    match field {
        Field::TopicAlias => number(shape, message.topic_alias, out),
        Field::ContentType => text(shape, properties.content_type.as_deref(), out),
        Field::CorrelationData => match &properties.correlation_data {
            Some(data) => shape.bytes(data, out),
            None => shape.absent_text(out),
        },
        Field::MessageExpiry => number(shape, properties.message_expiry, out),
        Field::PayloadFormat => number(shape, properties.payload_format.map(|format| format as u8), out),
        Field::IsoTime => shape.text(&strftime("%Y-%m-%dT%H:%M:%S%z", now), out),
        Field::PayloadLength => number(shape, Some(message.payload.len()), out),
        Field::PacketId => number(shape, Some(message.packet_id.map_or(0, PacketId::get)), out),
        Field::UserProperties => {
            let pairs = properties.user_properties.iter();
            let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}:{value}")).collect();
            shape.text(&pairs.join(" "), out);
        }
        Field::Payload => shape.bytes(&message.payload, out),
        Field::QoS => number(shape, Some(message.qos.bits()), out),
        Field::ResponseTopic => {
            let topic = properties.response_topic.as_ref();
            text(shape, topic.map(TopicNameBuf::as_str), out);
        }
        Field::Retain => number(shape, Some(u8::from(message.retain)), out),
        Field::SubscriptionIdentifiers => {
            let numbers: Vec<_> = message.subscription_identifiers.iter().map(u32::to_string).collect();
            shape.number(&numbers.join(","), out);
        }
        Field::Topic => shape.text(message.topic.as_str(), out),
        Field::UnixTime => {
            let timestamp = now.timestamp();
            let time = format!("{}.{:09}", timestamp.as_second(), timestamp.subsec_nanosecond());
            shape.text(&time, out);
        }
        Field::HexLower => shape.number(&hexadecimal(shape, &message.payload, b"0123456789abcdef"), out),
        Field::HexUpper => shape.number(&hexadecimal(shape, &message.payload, b"0123456789ABCDEF"), out),
        Field::Float => float(shape, f64::from(f32::from_le_bytes(exactly(message)?)), out),
        Field::Double => float(shape, f64::from_le_bytes(exactly(message)?), out),
        // They take no shape, so they are not handled here.
        Field::JsonText | Field::JsonValue => {}
    }
    Ok(())
}

fn text(shape: &Shape, text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => shape.text(text, out),
        None => shape.absent_text(out),
    }
}

fn number(shape: &Shape, number: Option<impl ToString>, out: &mut Vec<u8>) {
    match number {
        Some(number) => shape.number(&number.to_string(), out),
        None => shape.absent_number(out),
    }
}

fn hexadecimal(shape: &Shape, bytes: &[u8], digits: &[u8; 16]) -> String {
    let bytes = shape.cut(bytes);
    let mut text = String::with_capacity(3 * bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        if let Some(separator) = shape.separator.filter(|_| index > 0) {
            text.push(separator);
        }
        text.push(char::from(digits[usize::from(byte >> 4)]));
        text.push(char::from(digits[usize::from(byte & 0x0F)]));
    }
    text
}

/// The payload, when it has as many bytes as the number that it is to be.
fn exactly<const N: usize>(message: &Message) -> Result<[u8; N], RenderError> {
    message.payload.as_slice().try_into().map_err(|_| RenderError::NotFloat {
        topic: message.topic.to_string(),
        found: message.payload.len(),
        expected: N,
    })
}

fn float(shape: &Shape, value: f64, out: &mut Vec<u8>) {
    /// As many decimals as C's printf gives.
    const DECIMALS: usize = 6;
    let decimals = shape.precision.unwrap_or(DECIMALS);
    let text = format!("{value:.decimals$}").to_lowercase();
    if value.is_finite() {
        shape.number(&text, out);
    } else {
        shape.uncut().text(&text, out);
    }
}
