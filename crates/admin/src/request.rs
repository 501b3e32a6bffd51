//! A request: a method, a path, a body, and the type of its answer.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_units::percent::escape;

use crate::invalid::InvalidRequest;

/// The header that changes of a fleet and a reload need: a web page of another origin cannot send it.
pub const COMMAND_HEADER: &str = "tidegate-command";

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Begins something.
    Post,
    /// Sets something.
    Put,
    /// Ends or removes something.
    Delete,
}

impl Method {
    /// As HTTP writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// None.
    Empty,
    /// JSON.
    Json(String),
    /// Bytes that are not JSON.
    Bytes(&'a [u8]),
}

impl Body<'_> {
    /// A value as JSON.
    pub fn json<T: Serialize>(value: &T) -> Self {
        // The types of this crate have text keys and no failing serialiser; an empty body would be refused as no JSON.
        Body::Json(serde_json::to_string(value).unwrap_or_default())
    }
}

/// A request of the admin API.
pub trait Request {
    /// The answer of a broker that has carried the request out.
    type Answer: DeserializeOwned;

    /// The method.
    const METHOD: Method;

    /// The path; a part in braces is replaced by a name.
    const ROUTE: &'static str;

    /// The value of [`COMMAND_HEADER`] that the request needs.
    const COMMAND: Option<&'static str> = None;

    /// The path with its names, and the query.
    fn path(&self) -> String {
        Self::ROUTE.to_owned()
    }

    /// The body.
    fn body(&self) -> Body<'_> {
        Body::Empty
    }

    /// Checks beyond the types: ranges, and fields that exclude each other.
    ///
    /// # Errors
    /// If a broker refuses the request in every state.
    fn check(&self) -> Result<(), InvalidRequest> {
        Ok(())
    }
}

/// The answer of a request that was carried out, if the answer has no fields: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// The answer of a request that was not carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, for a person.
    pub error: String,
}

/// A route with a query.
pub(crate) fn with_query<T: Serialize>(route: &str, query: &T) -> String {
    // Queries are flat structures of texts and numbers, which this format always takes.
    match serde_urlencoded::to_string(query) {
        Ok(query) if !query.is_empty() => format!("{route}?{query}"),
        _ => route.to_owned(),
    }
}

/// A route with a name in place of `{name}` or `{id}`.
pub(crate) fn with_name(route: &str, name: &str) -> String {
    let Some((before, rest)) = route.split_once('{') else { return route.to_owned() };
    let behind = rest.split_once('}').map_or("", |(_, behind)| behind);
    format!("{before}{}{behind}", escape(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_parts_of_a_path() {
        assert_eq!(with_name("/a/{name}/drain", "b/ü c"), "/a/b%2F%C3%BC%20c/drain");
        assert_eq!(with_name("/a/{id}", "x-1"), "/a/x-1");
        assert_eq!(with_name("/a", "x"), "/a");
    }
}
