//! Answers of HTTP/1.1 [RFC 9112], with a length or in chunks.

use std::borrow::Cow;

use crate::drivers::Problem;

/// The longest head of an answer, in bytes.
const HEAD_MAX: usize = 64 * 1024;
/// The longest body, in bytes.
const BODY_MAX: usize = 256 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) body: Cow<'a, [u8]>,
}

/// The answer at the begin of some bytes and its length, once all of it is there.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Answer<'_>, usize)>, Problem> {
    let wrong = || Problem::new("the server does not speak HTTP; check the port");
    let prefix = b"HTTP/1.";
    if !bytes.starts_with(&prefix[..prefix.len().min(bytes.len())]) {
        return Err(wrong());
    }
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_MAX { Err(wrong()) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(wrong)?;
    let (mut len, mut in_chunks) = (0, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            len = value.trim().parse().ok().filter(|len| *len <= BODY_MAX).ok_or_else(wrong)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            in_chunks = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let rest = &bytes[end + 4..];
    if in_chunks {
        let chunks = unchunked(rest)?;
        return Ok(chunks.map(|(body, len)| (Answer { status, body: Cow::Owned(body) }, end + 4 + len)));
    }
    Ok(rest.get(..len).map(|body| (Answer { status, body: Cow::Borrowed(body) }, end + 4 + len)))
}

/// The body that is in chunks, and how long they are together.
fn unchunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Problem> {
    let wrong = || Problem::new("a chunk has no length");
    let (mut body, mut taken) = (Vec::new(), 0);
    loop {
        let rest = &bytes[taken..];
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else {
            return if rest.len() > HEAD_MAX { Err(wrong()) } else { Ok(None) };
        };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| wrong())?;
        let len = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).map_err(|_| wrong())?;
        if body.len().saturating_add(len) > BODY_MAX {
            return Err(Problem::new("an answer does not end"));
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + len + 2) else { return Ok(None) };
        taken += end + 2 + len + 2;
        if len == 0 {
            return Ok(Some((body, taken)));
        }
        body.extend_from_slice(&chunk[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_once_all_of_it_is_there() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        for (bytes, status) in [(&plain[..], 200), (&chunked[..], 404)] {
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Ok(None), "{end}");
            }
            let (answer, len) =
                read(&[bytes, b"HTTP"].concat()).unwrap().map(|(a, len)| (a.body.into_owned(), len)).unwrap();
            assert_eq!((answer.as_slice(), len), (&b"hello"[..], bytes.len()));
            assert_eq!(read(bytes).unwrap().unwrap().0.status, status);
        }
    }

    #[test]
    fn an_invalid_answer_is_reported() {
        for bytes in
            [&b"AMQP\0\0\x09\x01"[..], b"HTTP/1.1 x\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n"]
        {
            assert!(read(bytes).is_err());
        }
        assert!(read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n").is_err());
    }
}
