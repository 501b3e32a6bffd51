//! Amounts of CPU and memory as Kubernetes writes them.

/// Cores of a quantity such as `250m`, `1.5`, `1203456n` or `2e-1`; `None` if it is invalid or negative.
pub(super) fn cores(text: &str) -> Option<f64> {
    scaled(text, |suffix| match suffix {
        "n" => Some(1e-9),
        "u" => Some(1e-6),
        "m" => Some(1e-3),
        "" => Some(1.0),
        "k" => Some(1e3),
        _ => None,
    })
}

/// Bytes of a quantity such as `20Mi`, `1G` or `123456`; `None` if it is invalid or negative.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let power = |base: f64, exponent| Some(f64::powi(base, exponent));
    let value = scaled(text, |suffix| match suffix {
        // A metrics server writes thousandths of bytes where it divides.
        "m" => Some(1e-3),
        "" => Some(1.0),
        "k" => power(1e3, 1),
        "M" => power(1e3, 2),
        "G" => power(1e3, 3),
        "T" => power(1e3, 4),
        "Ki" => power(1024.0, 1),
        "Mi" => power(1024.0, 2),
        "Gi" => power(1024.0, 3),
        "Ti" => power(1024.0, 4),
        _ => None,
    })?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is finite and not negative")]
    Some(value as u64)
}

fn scaled(text: &str, scale: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let split = text.rfind(|last: char| last.is_ascii_digit() || last == '.')? + 1;
    let (number, suffix) = text.split_at(split);
    let scale = scale(suffix)?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let value: f64 = if plain { number.parse().ok()? } else { return None };
    (value.is_finite() && value >= 0.0).then_some(value * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_number_with_a_scale() {
        for (text, expected) in
            [("250m", 0.25), ("1", 1.0), ("1.5", 1.5), ("1500000n", 0.0015), ("12u", 12e-6), ("2e-1", 0.2), ("0", 0.0)]
        {
            let read = cores(text).unwrap();
            assert!((read - expected).abs() < 1e-12, "{text}: {read}");
        }
        for text in ["", "m", "-1", "1Gi", "1 m", "inf", "nan", "1mm", "0x1", "1e999"] {
            assert_eq!(cores(text), None, "{text}");
        }
    }

    #[test]
    fn memory_has_units_of_both_kinds() {
        for (text, expected) in [
            ("20Mi", 20 << 20),
            ("1500k", 1_500_000),
            ("123456", 123_456),
            ("2Gi", 2 << 30),
            ("1500m", 1),
            ("1.5Ki", 1536),
        ] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in ["", "Mi", "-1Mi", "1mi", "1 Mi", "inf", "1MiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
