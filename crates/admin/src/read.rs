//! Reads requests: what is wrong is said with the name of the field.

use serde::de::DeserializeOwned;

use crate::request::Request;

/// A request that no broker carries out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRequest(String);

impl InvalidRequest {
    /// One with what is wrong.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn at(path: &str, problem: &str) -> Self {
        if path.is_empty() || path == "." { Self(problem.to_owned()) } else { Self(format!("`{path}`: {problem}")) }
    }
}

/// Reads the JSON body of a request.
///
/// # Errors
/// When it is no JSON, or a field is unknown, missing, of another type or out of its range. The error names the field.
pub fn read_body<T: Request + DeserializeOwned>(body: &[u8]) -> Result<T, InvalidRequest> {
    // A list of values would be taken for the fields of a structure in their order.
    if body.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(InvalidRequest::new("the body must be a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let request: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let problem = error.inner();
        if problem.is_syntax() || problem.is_eof() || problem.is_io() {
            return InvalidRequest(format!("the body is no JSON: {problem}"));
        }
        InvalidRequest::at(&error.path().to_string(), &problem.to_string())
    })?;
    reader.end().map_err(|error| InvalidRequest(format!("the body is no JSON: {error}")))?;
    request.check()?;
    Ok(request)
}

/// Reads the query of a request.
///
/// # Errors
/// As [`read_body`].
pub fn read_query<T: Request + DeserializeOwned>(query: Option<&str>) -> Result<T, InvalidRequest> {
    let reader = serde_urlencoded::Deserializer::new(pairs(query.unwrap_or_default()));
    let request: T = serde_path_to_error::deserialize(reader)
        .map_err(|error| InvalidRequest::at(&error.path().to_string(), &error.inner().to_string()))?;
    request.check()?;
    Ok(request)
}

fn pairs(query: &str) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(query.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BanRequest, ClientsRequest, DrainRequest};

    #[test]
    fn errors_name_the_field() {
        let body = |text: &str| read_body::<DrainRequest>(text.as_bytes()).unwrap_err().to_string();
        assert!(
            body(r#"{"per_second": "x"}"#).starts_with("`per_second`: invalid type"),
            "{}",
            body(r#"{"per_second": "x"}"#)
        );
        assert!(
            body(r#"{"perSecond": 1}"#).starts_with("`perSecond`: unknown field `perSecond`"),
            "{}",
            body(r#"{"perSecond": 1}"#)
        );
        assert_eq!(body(r#"{"per_second": 0}"#), "`per_second` must be 1 to 1000000");
        assert!(body("{").starts_with("the body is no JSON") && body("").starts_with("the body is no JSON"));
        assert!(body("{} x").starts_with("the body is no JSON"));
        assert_eq!(body("[1]"), "the body must be a JSON object");
        let query = |text: &str| read_query::<ClientsRequest>(Some(text)).unwrap_err().to_string();
        assert!(query("limit=x").starts_with("`limit`: "), "{}", query("limit=x"));
        assert!(query("client=a").starts_with("`client`: unknown field"), "{}", query("client=a"));
        assert!(query("limit=1&limit=2").contains("duplicate field"), "{}", query("limit=1&limit=2"));
        let ban = read_body::<BanRequest>(br#"{"client": 5}"#).unwrap_err().to_string();
        assert!(ban.starts_with("`client`: "), "{ban}");
    }
}
