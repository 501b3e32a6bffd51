//! The record of a device, encoded for each message: the same content in JSON or in `MessagePack`.

pub(crate) mod message_pack;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::chance::mix;
use super::plan::{Encoding, Record};
use super::stamp::{STAMP_FIELD, Stamp};

/// The quantities of the sensors, in turn, with their units.
const NAMES: [(&str, &str); 6] = [
    ("temperature", "celsius"),
    ("humidity", "percent"),
    ("pressure", "hectopascal"),
    ("voltage", "volt"),
    ("current", "ampere"),
    ("speed", "metre per second"),
];

/// The begin of a run in the devices' time, in milliseconds since 1970: a record has to look like one, not to be true.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// Appends the record of a device: it depends only on the device and the stamp of its message.
pub(crate) fn write(record: Record, device: u32, stamp: Stamp, out: &mut Vec<u8>) {
    let time_ms = BEGIN_MS + stamp.scheduled_ns / 1_000_000;
    let mut content = content(record.readings, device, stamp.sequence, time_ms);
    if record.is_stamped() {
        content["customer"] = (device % u32::from(record.customers)).to_string().into();
        content[STAMP_FIELD] = stamp.to_digits().into();
    }
    encode(&content, record.encoding, out);
}

/// A document in another encoding. Text that is no JSON stays as it is: it does not come from a device.
pub(crate) fn recoded(document: &[u8], encoding: Option<Encoding>) -> Cow<'_, [u8]> {
    let Some(encoding) = encoding else { return Cow::Borrowed(document) };
    let Ok(content) = serde_json::from_slice::<Value>(document) else { return Cow::Borrowed(document) };
    let mut out = Vec::with_capacity(document.len());
    encode(&content, encoding, &mut out);
    Cow::Owned(out)
}

fn encode(content: &Value, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        // Writing a value to memory does not fail.
        Encoding::Json => drop(serde_json::to_writer(out, content)),
        Encoding::MessagePack => message_pack::write(content, out),
    }
}

fn content(readings: u16, device: u32, sequence: u32, time_ms: u64) -> Value {
    let seed = mix(u64::from(device) << 32 | u64::from(sequence));
    let reading = |place: u16| {
        let (name, unit) = NAMES[usize::from(place) % NAMES.len()];
        let chance = mix(seed ^ u64::from(place));
        #[expect(clippy::cast_precision_loss, reason = "a number below a thousand")]
        let value = (chance % 1000) as f64 / 10.0;
        json!({ "name": name, "unit": unit, "value": value, "quality": chance >> 60, "time": time_ms + u64::from(place) })
    };
    json!({
        "device": format!("device-{device:05}"),
        "sequence": sequence,
        "time": time_ms,
        "position": { "latitude": 51.0 + f64::from(device % 1000) / 1e4, "longitude": 3.7 },
        "readings": (0..readings).map(reading).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(encoding: Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        let stamp = Stamp { mark: 1, stream: 7, sequence: 3, scheduled_ns: 5_000_000_000 };
        write(Record { encoding, readings: 16, customers: 0 }, 7, stamp, &mut out);
        out
    }

    #[test]
    fn records_have_the_size_of_the_study_and_message_pack_less() {
        let (json, packed) = (record(Encoding::Json), record(Encoding::MessagePack));
        let content: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&content["device"], content["readings"].as_array().unwrap().len()), (&json!("device-00007"), 16));
        assert!((1_400..1_600).contains(&json.len()), "1.5 MB/s of 1,000 devices: {}", json.len());
        assert!(packed.len() * 10 < json.len() * 9, "{} against {}", packed.len(), json.len());
        assert_eq!(record(Encoding::Json), json, "a message that is sent again is the same");
    }

    #[test]
    fn a_record_for_a_platform_carries_its_stamp() {
        let stamp = Stamp { mark: 1, stream: 7, sequence: 3, scheduled_ns: 5_000_000_000 };
        let mut out = Vec::new();
        write(Record { encoding: Encoding::Json, readings: 16, customers: 4 }, 7, stamp, &mut out);
        let content: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&content["customer"], out.len() < 1_600), (&json!("3"), true));
        assert_eq!(Stamp::of_document(&out), Some(stamp));
    }

    #[test]
    fn a_gateway_packs_the_documents_of_devices() {
        let json = record(Encoding::Json);
        assert_eq!(*recoded(&json, Some(Encoding::MessagePack)), *record(Encoding::MessagePack));
        assert_eq!(*recoded(&json, Some(Encoding::Json)), *json);
        assert_eq!(*recoded(&json, None), *json);
        assert_eq!(*recoded(b"\0\0", Some(Encoding::MessagePack)), *b"\0\0");
    }
}
