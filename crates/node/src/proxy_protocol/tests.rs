use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

fn complete(bytes: &[u8]) -> (usize, Option<String>) {
    match parse(bytes) {
        Ok(Progress::Complete(header)) => (header.length, header.source.map(|source| source.to_string())),
        other => panic!("{other:?} of {bytes:02x?}"),
    }
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&v2::SIGNATURE[..], &[command, family], &length, body].concat()
}

const IPV4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 7, 0xdd, 0xd5, 0x07, 0x5b];

fn ipv6() -> Vec<u8> {
    let mut body = vec![0x20, 0x01, 0x0d, 0xb8];
    body.extend([0; 11]);
    body.push(1);
    body.extend([0; 15]);
    body.push(9);
    body.extend([0x04, 0xd2, 0x07, 0x5b]);
    body
}

#[test]
fn version_1() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.7 56789 1883\r\n";
    assert_eq!(complete(line), (line.len(), Some("192.0.2.1:56789".into())));
    assert_eq!(complete(&[&line[..], b"\x10\x00"].concat()).0, line.len(), "later bytes are not read");
    let line = b"PROXY TCP6 2001:db8::1 ::9 1234 1883\r\n";
    assert_eq!(complete(line), (line.len(), Some("[2001:db8::1]:1234".into())));
    let line = b"PROXY TCP6 ::ffff:192.0.2.1 ::9 0 1883\r\n";
    assert_eq!(complete(line).1, Some("192.0.2.1:0".into()));
    let longest = [&b"PROXY UNKNOWN "[..], &[b'f'; 91], b"\r\n"].concat();
    assert_eq!(complete(&longest), (107, None));
    assert_eq!(complete(b"PROXY UNKNOWN\r\n"), (15, None));
}

#[test]
fn version_1_malformed() {
    let lines: [&[u8]; 17] = [
        b"PROXY \r\n",
        b"PROXY TCP4\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 1 2\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 1 2 \r\n",
        b"PROXY TCP4  192.0.2.1 198.51.100.7 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 1 65536\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 +1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 01 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7  2\r\n",
        b"PROXY TCP4 192.0.2.01 198.51.100.7 1 2\r\n",
        b"PROXY TCP4 2001:db8::1 ::9 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.7 1 2\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.7 1 2\r\n",
        b"PROXY tcp4 192.0.2.1 198.51.100.7 1 2\r\n",
        b"PROXY UNKNOWNX\r\n",
        b"PROXY TCP4 192.0.2.1\r 198.51.100.7 1 2\r\n",
        b"PROXY TCP4 \xff\r\n",
    ];
    for line in lines {
        let result = parse(line);
        assert!(matches!(result, Err(ProxyError::Malformed(_))), "{result:?} of {}", line.escape_ascii());
    }
    let endless = [&b"PROXY UNKNOWN "[..], &[b'f'; 200]].concat();
    assert!(parse(&endless[..106]) == Ok(Progress::Partial) && parse(&endless[..107]).is_err());
}

#[test]
fn version_2() {
    assert_eq!(complete(&v2(0x21, 0x11, &IPV4)), (28, Some("192.0.2.1:56789".into())));
    assert_eq!(complete(&v2(0x21, 0x21, &ipv6())), (52, Some("[2001:db8::1]:1234".into())));
    // With a field of the proxy's own after the addresses.
    let more = [&IPV4[..], &[0x02, 0, 1, b'h']].concat();
    assert_eq!(complete(&v2(0x21, 0x11, &more)), (32, Some("192.0.2.1:56789".into())));
    assert_eq!(complete(&v2(0x20, 0x11, &IPV4)), (28, None), "a health check");
    assert_eq!(complete(&v2(0x20, 0x00, &[])), (16, None));
    assert_eq!(complete(&v2(0x21, 0x00, &[1, 2, 3])), (19, None), "unspecified");
    assert_eq!(complete(&v2(0x21, 0x31, &[0; 216])), (232, None), "a Unix socket");
    assert_eq!(complete(&v2(0x20, 0x00, &[0; HEADER_MAX - 16])).0, HEADER_MAX);
}

#[test]
fn version_2_malformed() {
    for (command, family, body) in [
        (0x11, 0x11, &IPV4[..]),
        (0x22, 0x11, &IPV4),
        (0x21, 0x12, &IPV4),
        (0x21, 0x41, &IPV4),
        (0x21, 0x11, &IPV4[..11]),
        (0x21, 0x21, &IPV4),
        (0x21, 0x31, &IPV4),
    ] {
        let result = parse(&v2(command, family, body));
        assert!(matches!(result, Err(ProxyError::Malformed(_))), "{command:x} {family:x} {result:?}");
    }
    assert_eq!(parse(&v2(0x20, 0x00, &[0; HEADER_MAX - 15])), Err(ProxyError::TooLong));
}

#[test]
fn anything_else_is_missing_from_its_first_byte_that_differs() {
    let beginnings: [&[u8]; 7] =
        [b"\x10", b"\x16\x03\x01", b"GET /", b"PROXX", b"PROXY\t", b"\r\n\r\n\0\r\nQUIX", b"\r\n\r\nQ"];
    for bytes in beginnings {
        assert_eq!((parse(bytes), begins_header(bytes)), (Err(ProxyError::Missing), Some(false)), "{bytes:02x?}");
    }
    for bytes in [&b""[..], b"P", b"PROXY", b"\r", b"\r\n\r\n\0\r\nQUIT"] {
        assert_eq!((parse(bytes), begins_header(bytes)), (Ok(Progress::Partial), None));
    }
    assert_eq!(begins_header(b"PROXY "), Some(true));
}

fn any_header() -> impl Strategy<Value = (Vec<u8>, Option<SocketAddr>)> {
    let v1 = any::<(std::net::SocketAddrV4, std::net::SocketAddrV4)>().prop_map(|(from, to)| {
        let line = format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port());
        (line.into_bytes(), Some(SocketAddr::V4(from)))
    });
    let second =
        (any::<std::net::SocketAddrV4>(), prop::collection::vec(any::<u8>(), 0..100)).prop_map(|(from, tail)| {
            let body = [&from.ip().octets()[..], &[0; 4], &from.port().to_be_bytes(), &[7, 91], &tail].concat();
            (v2(0x21, 0x11, &body), Some(SocketAddr::V4(from)))
        });
    let v6 = any::<[u8; 16]>().prop_map(|from| {
        let body = [&from[..], &[0; 16], &[4, 210, 7, 91]].concat();
        (v2(0x21, 0x21, &body), Some(SocketAddr::new(std::net::IpAddr::from(from).to_canonical(), 1234)))
    });
    prop_oneof![v1, second, v6]
}

#[test]
fn the_tenant_of_a_relayed_client_is_read_as_written() {
    let v4 = ("192.0.2.1:5000".parse().unwrap(), "0.0.0.0:0".parse().unwrap());
    let v6 = ("[2001:db8::1]:5000".parse().unwrap(), "[::]:0".parse().unwrap());
    let tenants = [(0, false, 0), (1, true, tenant_mark("acme")), (65_535, false, u32::MAX)];
    let tenants = tenants.map(|(number, settled, mark)| RelayedTenant { tenant: TenantId(number), settled, mark });
    for addresses in [None, Some(v4), Some(v6)] {
        for tenant in tenants.map(Some).into_iter().chain([None]) {
            for (proof, continues) in [(None, false), (Some([7; 32]), false), (None, true), (Some([7; 32]), true)] {
                let fields = HeaderFields { tenant, proof, continues, carry_to: None };
                let bytes = write_v2(addresses, fields);
                let source = addresses.map(|(source, _)| source);
                let header = Header { length: bytes.len(), source, fields };
                assert_eq!(parse(&bytes), Ok(Progress::Complete(header)));
            }
        }
    }
}

#[test]
fn the_home_to_carry_a_client_to_is_read_as_written() {
    for home in ["192.0.2.1:7001", "[2001:db8::1]:7001"].map(|home| home.parse().unwrap()) {
        let fields = HeaderFields { proof: Some([7; 32]), carry_to: Some(home), ..HeaderFields::default() };
        let Ok(Progress::Complete(header)) = parse(&write_v2(None, fields)) else { panic!("it is not complete") };
        assert_eq!(header.fields, fields);
    }
    for length in [0, 1, 2, 5, 7, 17, 19] {
        let field = [&[0xEA, 0, length][..], &vec![0; usize::from(length)]].concat();
        let Ok(Progress::Complete(header)) = parse(&v2(0x20, 0x00, &field)) else { panic!("it is not complete") };
        assert_eq!(header.fields.carry_to, None, "{length} bytes");
    }
}

#[test]
fn other_fields_and_broken_ones_say_no_tenant() {
    let address = [192, 0, 2, 1, 0, 0, 0, 0, 19, 136, 0, 0];
    let tenant = |fields: &[u8]| match parse(&v2(0x21, 0x11, &[&address[..], fields].concat())) {
        Ok(Progress::Complete(header)) => header.fields.tenant.map(|relayed| relayed.tenant.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(tenant(&[0x02, 0, 1, b'a', 0xE7, 0, 3, 0, 1, 2]), Some(258));
    for fields in [&[0xE7, 0, 2, 0, 1][..], &[0xE7, 0, 3, 0, 1], &[0xE7, 0], &[0x02, 0, 9, 0xE7, 0, 3, 0, 1, 2]] {
        assert_eq!(tenant(fields), None, "{fields:?}");
    }
}

proptest! {
    /// A split header is partial until it is complete, and then reads the same.
    #[test]
    fn splits_do_not_matter((bytes, source) in any_header(), tail in prop::collection::vec(any::<u8>(), 0..40)) {
        for length in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..length]), Ok(Progress::Partial), "{} of {}", length, bytes.len());
        }
        let length = bytes.len();
        let Ok(Progress::Complete(header)) = parse(&[bytes, tail].concat()) else { panic!("it is not complete") };
        prop_assert_eq!((header.length, header.source), (length, source));
    }

    /// A refused or complete header stays so, whatever bytes are added.
    #[test]
    fn more_bytes_never_change_the_outcome(
        start in prop_oneof![Just(&b"PROXY "[..]), Just(&v2::SIGNATURE[..]), Just(&b""[..])],
        rest in prop::collection::vec(any::<u8>(), 0..150),
    ) {
        let bytes = [start, &rest].concat();
        let mut outcome = None;
        for length in 0..=bytes.len() {
            let now = parse(&bytes[..length]);
            if let Ok(Progress::Complete(header)) = now {
                prop_assert!(header.length <= length);
            }
            if let Some(before) = &outcome {
                prop_assert_eq!(&now, before);
            } else if now != Ok(Progress::Partial) {
                outcome = Some(now);
            }
        }
    }
}
