//! Functions of SQL, by the names that they have in EMQX.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::dates;
use super::digests::{md5, sha1, sha256, uuid};
use super::environment::Environment;
use super::error::{ArityError, ComputeError, MAX_RESULT};
use super::texts::{bounded, decimal, find, hexadecimal, join, pad, split, sprintf, text_of_digits, tokens};
use super::unit::{MILLISECOND, Unit};
use super::values::{element, number_of, order, real, text_of, whole};
use crate::format::json as read_json;
use crate::time::{nanoseconds_of, rfc3339, rfc3339_of};

macro_rules! functions {
    ($($function:ident $least:literal $most:literal $($name:literal)+;)*) => {
        /// A function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Function { $($function,)* }

        /// Each with its names, and how many values it takes.
        const TABLE: &[(Function, &[&str], usize, usize)] = &[$((Function::$function, &[$($name),+], $least, $most),)*];
    };
}

functions! {
    Lower 1 1 "lower";
    Upper 1 1 "upper";
    Trim 1 1 "trim";
    Ltrim 1 1 "ltrim";
    Rtrim 1 1 "rtrim";
    Reverse 1 1 "reverse";
    Length 1 1 "length" "strlen" "char_length";
    Substr 2 3 "substr" "substring";
    Concat 1 16 "concat";
    Replace 3 3 "replace";
    Split 2 3 "split";
    Tokens 2 2 "tokens";
    Find 2 3 "find";
    Pad 2 4 "pad";
    Join 1 2 "join_to_string";
    RemovePrefix 2 2 "rm_prefix";
    Ascii 1 1 "ascii";
    ToHex 1 1 "bin2hexstr";
    OfHex 1 1 "hexstr2bin";
    Contains 2 2 "contains";
    StartsWith 2 2 "starts_with" "startswith";
    EndsWith 2 2 "ends_with" "endswith";
    Abs 1 1 "abs";
    Ceil 1 1 "ceil" "ceiling";
    Floor 1 1 "floor";
    Round 1 2 "round";
    Sqrt 1 1 "sqrt";
    Power 2 2 "power" "pow";
    Mod 2 2 "mod" "fmod";
    Sin 1 1 "sin";
    Cos 1 1 "cos";
    Tan 1 1 "tan";
    Asin 1 1 "asin";
    Acos 1 1 "acos";
    Atan 1 1 "atan";
    Sinh 1 1 "sinh";
    Cosh 1 1 "cosh";
    Tanh 1 1 "tanh";
    Asinh 1 1 "asinh";
    Acosh 1 1 "acosh";
    Atanh 1 1 "atanh";
    Exp 1 1 "exp";
    Ln 1 1 "ln" "log";
    Log2 1 1 "log2";
    Log10 1 1 "log10";
    Greatest 1 16 "greatest" "max";
    Least 1 16 "least" "min";
    Int 1 1 "int" "integer";
    Float 1 2 "float" "double";
    FloatText 2 2 "float2str";
    Str 1 1 "str" "string" "str_utf8";
    Bool 1 1 "bool" "boolean";
    Coalesce 1 16 "coalesce" "ifnull" "nvl";
    NullIf 2 2 "nullif";
    Nth 2 2 "nth";
    First 1 1 "first";
    Last 1 1 "last";
    Sublist 2 3 "sublist";
    Get 2 3 "map_get" "mget";
    Put 3 3 "map_put" "mput";
    Keys 1 1 "map_keys";
    Values 1 1 "map_values";
    Entries 1 1 "map_to_entries";
    IsNull 1 1 "is_null" "is_null_var";
    IsNotNull 1 1 "is_not_null" "is_not_null_var";
    IsEmpty 1 1 "is_empty";
    IsStr 1 1 "is_str";
    IsNum 1 1 "is_num";
    IsInt 1 1 "is_int";
    IsFloat 1 1 "is_float";
    IsBool 1 1 "is_bool";
    IsArray 1 1 "is_array";
    IsMap 1 1 "is_map";
    BitAnd 2 2 "bitand";
    BitOr 2 2 "bitor";
    BitXor 2 2 "bitxor";
    BitNot 1 1 "bitnot";
    ShiftLeft 2 2 "bitsl";
    ShiftRight 2 2 "bitsr";
    Now 0 0 "now" "now_rfc3339" "current_timestamp";
    NowTimestamp 0 1 "now_timestamp" "unix_timestamp";
    Rfc3339 1 2 "unix_ts_to_rfc3339" "rfc3339";
    FromRfc3339 1 2 "rfc3339_to_unix_ts";
    FormatDate 4 4 "format_date";
    ReadDate 3 4 "date_to_unix_ts";
    Md5 1 1 "md5";
    Sha1 1 1 "sha";
    Sha256 1 1 "sha256";
    Uuid 0 0 "uuid_v4";
    UuidDigits 0 0 "uuid_v4_no_hyphen";
    Sprintf 1 16 "sprintf" "sprintf_s";
    JsonEncode 1 1 "json_encode";
    JsonDecode 1 1 "json_decode";
    Base64Encode 1 1 "base64_encode";
    Base64Decode 1 1 "base64_decode";
}

impl Function {
    /// The function of a name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, names, ..)| names.contains(&name)).map(|(function, ..)| *function)
    }

    /// The name that begins as another does.
    pub(super) fn nearest(name: &str) -> Option<&'static str> {
        let shared = |other: &str| name.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
        let names = TABLE.iter().flat_map(|(_, names, ..)| names.iter().copied());
        names.max_by_key(|other| shared(other)).filter(|other| shared(other) >= 3)
    }

    /// True if it takes this number of values.
    pub(super) fn check(self, count: usize) -> Result<(), ArityError> {
        let Some((_, names, least, most)) = TABLE.iter().find(|(function, ..)| *function == self) else {
            return Ok(());
        };
        if (*least..=*most).contains(&count) {
            return Ok(());
        }
        Err(ArityError { function: names[0], least: *least, most: *most, count })
    }

    /// The place of a unit of time among its values.
    pub(super) fn unit_place(self) -> Option<usize> {
        match self {
            Self::NowTimestamp | Self::FormatDate | Self::ReadDate => Some(0),
            Self::Rfc3339 | Self::FromRfc3339 => Some(1),
            _ => None,
        }
    }

    /// Its result. Null as the first value gives null, except in functions that exist to handle null.
    pub(super) fn call(self, values: Vec<Value>, environment: &Environment<'_>) -> Result<Value, ComputeError> {
        match self {
            Self::Coalesce => return Ok(values.into_iter().find(|value| !value.is_null()).unwrap_or_default()),
            Self::Concat => return joined(&values),
            Self::Sprintf => return sprintf(&values),
            Self::Uuid => return Ok(uuid(environment, "-").into()),
            Self::UuidDigits => return Ok(uuid(environment, "").into()),
            Self::Greatest | Self::Least => return Ok(extreme(self == Self::Greatest, values)),
            Self::Now => return Ok(Value::String(rfc3339(environment.now))),
            Self::NowTimestamp => {
                let unit = values.first().map_or(Ok(Unit::Second), Unit::of)?;
                return unit.value(i128::from(environment.now) * MILLISECOND);
            }
            Self::IsNull
            | Self::IsNotNull
            | Self::IsEmpty
            | Self::IsStr
            | Self::IsNum
            | Self::IsInt
            | Self::IsFloat
            | Self::IsBool
            | Self::IsArray
            | Self::IsMap => return Ok(self.is_kind_of(values.first().unwrap_or(&Value::Null)).into()),
            Self::JsonEncode => return Ok(Value::String(values.first().unwrap_or(&Value::Null).to_string())),
            Self::FormatDate | Self::ReadDate if values.last().is_none_or(Value::is_null) => return Ok(Value::Null),
            Self::FormatDate => return dates::written(&values),
            Self::ReadDate => return dates::read(&values),
            _ => {}
        }
        let Some(first) = values.first().filter(|value| !value.is_null()) else { return Ok(Value::Null) };
        let second = values.get(1).unwrap_or(&Value::Null);
        if let Some(curve) = self.curve() {
            return real(curve(number_of(first)?));
        }
        match self {
            Self::Abs
            | Self::Ceil
            | Self::Floor
            | Self::Round
            | Self::Power
            | Self::Mod
            | Self::Int
            | Self::Float
            | Self::FloatText => self.number(first, second),
            Self::Split | Self::Tokens | Self::Find | Self::Pad | Self::Join | Self::RemovePrefix => {
                self.part(first, second, &values)
            }
            Self::BitAnd | Self::BitOr | Self::BitXor | Self::BitNot | Self::ShiftLeft | Self::ShiftRight => {
                self.bits(first, second)
            }
            Self::Sublist | Self::Put | Self::Keys | Self::Values | Self::Entries => {
                Ok(self.of_container(first, second, values.get(2)))
            }
            _ => self.other(first, second, values.get(2)),
        }
    }

    /// A function of one number.
    fn curve(self) -> Option<fn(f64) -> f64> {
        Some(match self {
            Self::Sqrt => f64::sqrt,
            Self::Exp => f64::exp,
            Self::Ln => f64::ln,
            Self::Log2 => f64::log2,
            Self::Log10 => f64::log10,
            Self::Sin => f64::sin,
            Self::Cos => f64::cos,
            Self::Tan => f64::tan,
            Self::Asin => f64::asin,
            Self::Acos => f64::acos,
            Self::Atan => f64::atan,
            Self::Sinh => f64::sinh,
            Self::Cosh => f64::cosh,
            Self::Tanh => f64::tanh,
            Self::Asinh => f64::asinh,
            Self::Acosh => f64::acosh,
            Self::Atanh => f64::atanh,
            _ => return None,
        })
    }

    /// Parts of texts, and texts of parts.
    fn part(self, first: &Value, second: &Value, values: &[Value]) -> Result<Value, ComputeError> {
        let (text, by, third) = (text_of(first), text_of(second), values.get(2));
        match self {
            Self::Split => split(&text, &by, third),
            Self::Tokens => Ok(tokens(&text, &by)),
            Self::Find => find(&text, &by, third),
            Self::Pad => pad(&text, values),
            Self::Join => join(first, values.get(1)),
            _ => Ok(text.strip_prefix(by.as_str()).unwrap_or(&text).into()),
        }
    }

    fn number(self, first: &Value, second: &Value) -> Result<Value, ComputeError> {
        let number = number_of(first)?;
        match self {
            Self::Abs => first.as_i64().and_then(i64::checked_abs).map_or_else(|| real(number.abs()), |n| Ok(n.into())),
            Self::Ceil => whole(number.ceil()),
            Self::Floor => whole(number.floor()),
            Self::Round if second.is_null() => whole(number.round()),
            Self::FloatText => Ok(decimal(number, number_of(second)?)),
            Self::Float if second.is_null() => real(number),
            Self::Round | Self::Float => {
                let digits = number_of(second)?.clamp(-15.0, 15.0);
                let factor = 10_f64.powi(digits as i32);
                real((number * factor).round() / factor)
            }
            Self::Power => real(number.powf(number_of(second)?)),
            Self::Mod if number_of(second)? == 0.0 => Err(ComputeError::DividedByZero),
            Self::Mod => match (first.as_i64(), second.as_i64()) {
                (Some(one), Some(other)) => Ok(one.checked_rem(other).into()),
                _ => real(number % number_of(second)?),
            },
            Self::Int => whole(number.trunc()),
            _ => real(number),
        }
    }

    fn other(self, first: &Value, second: &Value, third: Option<&Value>) -> Result<Value, ComputeError> {
        let text = text_of(first);
        Ok(match self {
            Self::Lower => Value::String(text.to_lowercase()),
            Self::Upper => Value::String(text.to_uppercase()),
            Self::Trim => text.trim().into(),
            Self::Ltrim => text.trim_start().into(),
            Self::Rtrim => text.trim_end().into(),
            Self::Reverse => text.chars().rev().collect::<String>().into(),
            Self::Length => match first {
                Value::Array(items) => items.len().into(),
                Value::Object(fields) => fields.len().into(),
                _ => text.chars().count().into(),
            },
            Self::Substr => substr(&text, second, third)?,
            Self::Replace => {
                let (from, to) = (text_of(second), third.map(text_of).unwrap_or_default());
                let matches = if from.is_empty() { 0 } else { text.matches(&from).count() };
                if text.len() + matches * to.len() > MAX_RESULT + matches * from.len() {
                    return Err(ComputeError::TooLong);
                }
                if matches == 0 { text.into() } else { text.replace(&from, &to).into() }
            }
            Self::Contains => match (first, second) {
                // In EMQX the list is the second argument.
                (Value::Array(items), wanted) | (wanted, Value::Array(items)) => items.contains(wanted).into(),
                _ => text.contains(&text_of(second)).into(),
            },
            Self::StartsWith => text.starts_with(&text_of(second)).into(),
            Self::EndsWith => text.ends_with(&text_of(second)).into(),
            Self::Ascii => text.chars().next().map(u32::from).into(),
            Self::ToHex => bounded(hexadecimal(text.as_bytes()))?,
            Self::OfHex => text_of_digits(&text)?,
            Self::Md5 => md5(&text).into(),
            Self::Sha1 => sha1(&text).into(),
            Self::Sha256 => sha256(&text).into(),
            Self::FromRfc3339 => Unit::of(second)?.value(nanoseconds_of(&text).ok_or(ComputeError::NotTime(text))?)?,
            Self::Str => Value::String(text),
            Self::Bool => match text.to_lowercase().as_str() {
                "true" | "1" | "on" => true.into(),
                "false" | "0" | "off" => false.into(),
                _ => return Err(ComputeError::NotBool(text)),
            },
            Self::NullIf if order(first, second) == Some(std::cmp::Ordering::Equal) => Value::Null,
            Self::NullIf => first.clone(),
            Self::Nth => nth(first, second),
            Self::First => first.as_array().and_then(|items| items.first()).cloned().unwrap_or_default(),
            Self::Last => first.as_array().and_then(|items| items.last()).cloned().unwrap_or_default(),
            Self::Get => {
                // In EMQX the key is the first argument.
                let (key, from) = if first.is_object() { (second, first) } else { (first, second) };
                let found = field_at(from, &text_of(key)).cloned();
                found.unwrap_or_else(|| third.cloned().unwrap_or_default())
            }
            Self::Rfc3339 => time_text(first, second)?,
            Self::JsonDecode => read_json(text.as_bytes()).map_err(ComputeError::NotJson)?,
            Self::Base64Encode => bounded(STANDARD.encode(text))?,
            Self::Base64Decode => {
                let bytes = STANDARD.decode(text).map_err(ComputeError::NotBase64)?;
                String::from_utf8(bytes).map_err(|_| ComputeError::NotText)?.into()
            }
            _ => Value::Null,
        })
    }
}

impl Function {
    fn is_kind_of(self, value: &Value) -> bool {
        match self {
            Self::IsNull => value.is_null(),
            Self::IsNotNull => !value.is_null(),
            Self::IsEmpty => match value {
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                Value::String(text) => text.is_empty(),
                other => other.is_null(),
            },
            Self::IsStr => value.is_string(),
            Self::IsNum => value.is_number(),
            Self::IsInt => value.is_i64() || value.is_u64(),
            Self::IsFloat => value.is_f64(),
            Self::IsBool => value.is_boolean(),
            Self::IsArray => value.is_array(),
            _ => value.is_object(),
        }
    }

    /// Computes with the 64 bits of whole numbers. A shift by more than 63 bits leaves none.
    fn bits(self, first: &Value, second: &Value) -> Result<Value, ComputeError> {
        let whole = |value: &Value| match value.as_i64() {
            Some(number) => Ok(number),
            None => number_of(value).map(|number| number as i64),
        };
        let one = whole(first)?;
        if self == Self::BitNot {
            return Ok((!one).into());
        }
        if second.is_null() {
            return Ok(Value::Null);
        }
        let other = whole(second)?;
        let by = u32::try_from(other).unwrap_or(u32::MAX);
        Ok(match self {
            Self::BitAnd => one & other,
            Self::BitOr => one | other,
            Self::BitXor => one ^ other,
            Self::ShiftLeft => one.checked_shl(by).unwrap_or_default(),
            _ => one.checked_shr(by).unwrap_or_default(),
        }
        .into())
    }

    /// Computes with arrays and objects; null for other values.
    fn of_container(self, first: &Value, second: &Value, third: Option<&Value>) -> Value {
        match (self, first, second, third) {
            // `sublist(LENGTH, ARRAY)` and `sublist(START, LENGTH, ARRAY)`, from 1.
            (Self::Sublist, Value::Number(len), Value::Array(items), None) => part_of(items, 1, len.as_u64()),
            (Self::Sublist, Value::Number(from), Value::Number(len), Some(Value::Array(items))) => {
                part_of(items, from.as_u64().unwrap_or(1), len.as_u64())
            }
            (Self::Put, key, value, Some(Value::Object(fields))) => {
                let mut object = Value::Object(fields.clone());
                put_at(&mut object, &text_of(key), value.clone());
                object
            }
            (Self::Keys, Value::Object(fields), ..) => fields.keys().map(String::as_str).collect(),
            (Self::Values, Value::Object(fields), ..) => fields.values().cloned().collect(),
            (Self::Entries, Value::Object(fields), ..) => {
                fields.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
            }
            _ => Value::Null,
        }
    }
}

/// A number of elements of an array, from a position on.
fn part_of(items: &[Value], from: u64, len: Option<u64>) -> Value {
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (skipped, taken) = (place(from.saturating_sub(1)), place(len.unwrap_or_default()));
    items.iter().skip(skipped).take(taken).cloned().collect()
}

/// A field by its name, or else by the names on the way to it: `a.b.c`.
fn field_at<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| name.split('.').try_fold(object, |value, name| value.get(name)))
}

/// Most names on the way to a field that is put: each makes an object within another one.
const MAX_NAMES: usize = 32;

/// Puts a value where [`field_at`] finds it; objects on the way are made.
fn put_at(object: &mut Value, name: &str, value: Value) {
    let is_whole = object.get(name).is_some();
    let mut place = object;
    for name in name.splitn(MAX_NAMES, '.').filter(|_| !is_whole) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    match place {
        Value::Object(fields) if is_whole => drop(fields.insert(name.to_owned(), value)),
        place => *place = value,
    }
}

/// A Unix time as text. Without a unit a large number is in milliseconds.
fn time_text(time: &Value, unit: &Value) -> Result<Value, ComputeError> {
    let number = number_of(time)?;
    let is_in_milliseconds = unit.is_null() && number.abs() >= 1e11;
    let unit = if is_in_milliseconds { Unit::Millisecond } else { Unit::of(unit)? };
    let text = unit.milliseconds(number).and_then(rfc3339_of);
    text.map(Value::String).ok_or_else(|| ComputeError::NotTime(text_of(time)))
}

fn joined(values: &[Value]) -> Result<Value, ComputeError> {
    bounded(values.iter().map(text_of).collect())
}

/// The whole part of a number, 0 below it.
fn unsigned(number: f64) -> u64 {
    u64::try_from(number as i64).unwrap_or_default()
}

fn extreme(greatest: bool, values: Vec<Value>) -> Value {
    let better = |one: &Value, other: &Value| {
        order(one, other).is_some_and(|order| if greatest { order.is_gt() } else { order.is_lt() })
    };
    let known = values.into_iter().filter(|value| !value.is_null());
    known.reduce(|best, value| if better(&value, &best) { value } else { best }).unwrap_or_default()
}

/// A number of characters from a position, which counts from 0 as in EMQX.
fn substr(text: &str, from: &Value, len: Option<&Value>) -> Result<Value, ComputeError> {
    let place = |value: &Value| number_of(value).map(|number| usize::try_from(unsigned(number)).unwrap_or(usize::MAX));
    let characters = text.chars().skip(place(from)?);
    Ok(match len {
        Some(len) => characters.take(place(len)?).collect::<String>().into(),
        None => characters.collect::<String>().into(),
    })
}

/// `nth(NUMBER, ARRAY)` as in EMQX, or the other way round.
fn nth(first: &Value, second: &Value) -> Value {
    let found = match (first, second) {
        (Value::Number(at), Value::Array(items)) | (Value::Array(items), Value::Number(at)) => {
            at.as_i64().and_then(|at| element(items, at))
        }
        _ => None,
    };
    found.cloned().unwrap_or_default()
}
