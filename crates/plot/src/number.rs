//! Numbers with about three significant digits, and thousands apart.

/// A number with about three significant digits.
pub fn shown(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size == 0.0 {
        return "0".to_owned();
    }
    if size >= 100.0 {
        return thousands(value.round());
    }
    let digits = if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        3
    };
    let text = format!("{value:.digits$}");
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if trimmed == "0" { format!("{value:.1e}") } else { trimmed.to_owned() }
}

/// A ratio as a factor.
pub fn factor(value: f64) -> String {
    format!("{}×", if value >= 10.0 { shown(value.round()) } else { format!("{value:.2}") })
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let pairs = [
            (0.0, "0"),
            (1_234_567.8, "1,234,568"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.204, "1.2"),
            (0.1234, "0.123"),
            (0.00001, "1.0e-5"),
            (-1500.0, "-1,500"),
            (f64::NAN, "–"),
        ];
        for (value, text) in pairs {
            assert_eq!(shown(value), text);
        }
        assert_eq!((factor(1.5).as_str(), factor(1234.0).as_str()), ("1.50×", "1,234×"));
    }
}
