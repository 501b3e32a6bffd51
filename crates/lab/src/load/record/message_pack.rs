//! `MessagePack`, as far as a document of JSON needs it: <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use serde_json::{Number, Value};

/// Appends a value in its shortest form.
pub(crate) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xC0),
        Value::Bool(yes) => out.push(if *yes { 0xC3 } else { 0xC2 }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(values) => {
            write_len(values.len(), [0x90, 0xDC, 0xDD], out);
            for value in values {
                write(value, out);
            }
        }
        Value::Object(fields) => {
            write_len(fields.len(), [0x80, 0xDE, 0xDF], out);
            for (name, value) in fields {
                write_text(name, out);
                write(value, out);
            }
        }
    }
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    if let Some(positive) = number.as_u64() {
        write_positive(positive, out);
    } else if let Some(negative) = number.as_i64() {
        write_negative(negative, out);
    } else {
        out.push(0xCB);
        out.extend_from_slice(&number.as_f64().unwrap_or(f64::NAN).to_be_bytes());
    }
}

fn write_positive(number: u64, out: &mut Vec<u8>) {
    match number {
        0..=0x7F => out.push(number as u8),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, number as u8]),
        0x100..=0xFFFF => {
            out.push(0xCD);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xFFFF_FFFF => {
            out.push(0xCE);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(0xCF);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn write_negative(number: i64, out: &mut Vec<u8>) {
    if let (-32.., Ok(small)) = (number, i8::try_from(number)) {
        out.extend_from_slice(&small.to_be_bytes());
    } else if let Ok(small) = i8::try_from(number) {
        out.push(0xD0);
        out.extend_from_slice(&small.to_be_bytes());
    } else if let Ok(small) = i16::try_from(number) {
        out.push(0xD1);
        out.extend_from_slice(&small.to_be_bytes());
    } else if let Ok(small) = i32::try_from(number) {
        out.push(0xD2);
        out.extend_from_slice(&small.to_be_bytes());
    } else {
        out.push(0xD3);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    match text.len() {
        len @ 0..=31 => out.push(0xA0 | len as u8),
        len @ 32..=0xFF => out.extend_from_slice(&[0xD9, len as u8]),
        len => write_len(len, [0, 0xDA, 0xDB], out),
    }
    out.extend_from_slice(text.as_bytes());
}

/// A length up to 15 in one byte, or in two or four behind a byte; texts never have the first form here.
fn write_len(len: usize, [short, two, four]: [u8; 3], out: &mut Vec<u8>) {
    if len < 16 && short != 0 {
        out.push(short | len as u8);
    } else if let Ok(len) = u16::try_from(len) {
        out.push(two);
        out.extend_from_slice(&len.to_be_bytes());
    } else {
        out.push(four);
        out.extend_from_slice(&(len as u32).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn packed(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        write(value, &mut out);
        out
    }

    #[test]
    fn each_form_is_that_of_the_specification() {
        // The example of the format's front page, and the first value of each longer form.
        assert_eq!(packed(&json!({ "compact": true, "schema": 0 })), b"\x82\xA7compact\xC3\xA6schema\x00");
        let forms: [(Value, &[u8]); 14] = [
            (json!(null), &[0xC0]),
            (json!(127), &[0x7F]),
            (json!(128), &[0xCC, 0x80]),
            (json!(256), &[0xCD, 1, 0]),
            (json!(65_536), &[0xCE, 0, 1, 0, 0]),
            (json!(4_294_967_296_u64), &[0xCF, 0, 0, 0, 1, 0, 0, 0, 0]),
            (json!(-1), &[0xFF]),
            (json!(-32), &[0xE0]),
            (json!(-33), &[0xD0, 0xDF]),
            (json!(-129), &[0xD1, 0xFF, 0x7F]),
            (json!(-32_769), &[0xD2, 0xFF, 0xFF, 0x7F, 0xFF]),
            (json!(1.5), &[0xCB, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0]),
            (json!([1, [false]]), &[0x92, 1, 0x91, 0xC2]),
            (json!(""), &[0xA0]),
        ];
        for (value, bytes) in forms {
            assert_eq!(packed(&value), bytes, "{value}");
        }
        let long = |len: usize| packed(&json!("x".repeat(len)));
        assert_eq!((&long(32)[..2], &long(256)[..3]), (&[0xD9, 32][..], &[0xDA, 1, 0][..]));
        let many = |len: usize| packed(&json!(vec![0; len]));
        assert_eq!((&many(16)[..3], &many(65_536)[..5]), (&[0xDC, 0, 16][..], &[0xDD, 0, 1, 0, 0][..]));
    }
}
