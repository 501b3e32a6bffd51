//! Amounts of CPU as Kubernetes writes them.

/// Cores of a quantity such as `250m`, `1.5`, `1203456n` or `2e-1`; `None` for what is none, or is negative.
pub(super) fn cores(text: &str) -> Option<f64> {
    let split = text.rfind(|last: char| last.is_ascii_digit() || last == '.')? + 1;
    let (number, suffix) = text.split_at(split);
    let scale = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        _ => return None,
    };
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
}
