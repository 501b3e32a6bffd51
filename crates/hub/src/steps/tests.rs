use serde_json::json;

use super::*;

fn message(topic: &str, payload: &Value) -> Arc<Message> {
    Arc::new(Message {
        id: "m-1".into(),
        lasting_id: true,
        topic: topic.into(),
        client_id: Some("pump-7".into()),
        user_name: Some("ann".into()),
        peer_host: Some("192.0.2.7".into()),
        qos: 1,
        retain: false,
        timestamp: 1_772_323_200_000,
        payload: payload.to_string().into_bytes(),
        ..Message::default()
    })
}

fn select(sql: &str, topic: &str, payload: &Value) -> Result<Option<Value>, String> {
    let settings = StepSettings { sql: Some(sql.to_owned()), ..StepSettings::default() };
    let steps = Steps::new(&settings).map_err(|(_, error)| error.to_string())?;
    let record = steps.run(&message(topic, payload), 1_772_323_201_500).map_err(|error| error.to_string())?;
    Ok(record.first.map(|record| serde_json::from_str(&record.json()).unwrap()))
}

/// The value of an expression for a payload.
fn value(expression: &str, payload: &Value) -> Result<Value, String> {
    let row = select(&format!("SELECT {expression} AS x FROM 't'"), "t", payload)?;
    Ok(row.unwrap()["x"].clone())
}

#[test]
fn messages_pass_as_they_came_without_any_step() {
    let of = |settings: StepSettings| Steps::new(&settings).unwrap().passes_all();
    let none = StepSettings::default;
    assert_eq!(of(StepSettings { format: Format::Cbor, ..none() }), Some(Format::Cbor));
    let text = |text: &str| Some(text.to_owned());
    let window = "SELECT count(*) AS n FROM 't'";
    for settings in [
        StepSettings { encode: Some(Format::Cbor), ..none() },
        StepSettings { filter: text("qos == 1"), ..none() },
        StepSettings { sql: text("SELECT topic FROM 't'"), ..none() },
        StepSettings { sql: text(window), every: Some(1000), ..none() },
        StepSettings { set: vec!["a = 1".to_owned()], ..none() },
        StepSettings { topic: text("'a' + topic"), ..none() },
        StepSettings { key: text("clientid"), ..none() },
        StepSettings { forwards: true, ..none() },
    ] {
        assert_eq!(of(settings.clone()), None, "{settings:?}");
    }
}

#[test]
fn a_passed_message_has_the_record_that_steps_make() {
    for format in [Format::Json, Format::Cbor, Format::MessagePack, Format::Raw] {
        let steps = Steps::new(&StepSettings { format, ..StepSettings::default() }).unwrap();
        for payload in [&b""[..], b"{\"a\": 1}", b"\xff\x00 of no format"] {
            let message = Arc::new(Message { payload: payload.to_vec(), ..Message::clone(&message("t", &json!(0))) });
            let passed = Records::one(Record::new(Arc::clone(&message), Content::Whole(WholeMessage::new(format))));
            assert_eq!((steps.passes_all(), steps.run(&message, 0).unwrap()), (Some(format), passed));
        }
    }
}

#[test]
fn the_statement_of_the_contract_gives_its_row() {
    let sql = "SELECT payload.temp AS temp, topic, clientid FROM 'plant/+/temp' WHERE payload.temp > 30";
    let row = |topic, temp: f64| select(sql, topic, &json!({ "temp": temp })).unwrap();
    assert_eq!(row("plant/a/temp", 31.5), Some(json!({ "temp": 31.5, "topic": "plant/a/temp", "clientid": "pump-7" })));
    assert_eq!(row("plant/a/temp", 30.0), None);
    assert_eq!(row("plant/a/hum", 31.0), None, "none of its topics");
    let publisher = select("SELECT username, peerhost FROM 't' WHERE username = 'ann'", "t", &json!(0)).unwrap();
    assert_eq!(publisher, Some(json!({ "username": "ann", "peerhost": "192.0.2.7" })));
    let settings = StepSettings { sql: Some(sql.to_owned()), ..StepSettings::default() };
    assert_eq!(Steps::new(&settings).unwrap().from()[0].as_str(), "plant/+/temp");
}

#[test]
fn a_statement_as_emqx_users_write_it_is_understood() {
    let payload = json!({ "temp": 31.5, "tags": ["a", "b"], "pos": { "lat": 1 } });
    let row = select(
        r#"SELECT payload.temp, payload.pos.lat as lat, qos, timestamp, payload.tags[1] as tag, upper(clientid) as who
           FROM "t/#", "u/+" WHERE payload.temp >= 30 and not (qos = 0) and payload.pos.lat in (1, 2)"#,
        "t/1",
        &payload,
    );
    let expected = json!({
        "payload": { "temp": 31.5 }, "lat": 1, "qos": 1, "timestamp": 1_772_323_200_000_u64, "tag": "a", "who": "PUMP-7"
    });
    assert_eq!(row.unwrap().unwrap(), expected);
    let all = select("SELECT * FROM 't'", "t", &json!({ "a": 1 })).unwrap().unwrap();
    assert_eq!((&all["payload"]["a"], &all["clientid"]), (&json!(1), &json!("pump-7")));
}

#[test]
fn expressions_give_what_sql_says() {
    let payload = json!({ "a": 7, "b": 2, "f": 2.5, "s": " Ab ", "n": null, "list": [1, 2, 3], "o": { "k": "v" } });
    for (expression, expected) in [
        ("payload.a + payload.b * 2", json!(11)),
        ("payload.a / payload.b", json!(3.5)),
        ("payload.a % payload.b", json!(1)),
        ("-payload.a", json!(-7)),
        ("payload.f - 1", json!(1.5)),
        ("payload.missing + 1", json!(null)),
        ("payload.missing.deep", json!(null)),
        ("payload.a > 6 AND payload.b = 2.0", json!(true)),
        ("payload.missing > 1 OR payload.a = 7", json!(true)),
        ("payload.missing > 1 AND payload.a = 7", json!(null)),
        ("payload.n IS NULL", json!(true)),
        ("payload.a BETWEEN 1 AND 7", json!(true)),
        ("payload.s LIKE '%A_ '", json!(true)),
        ("CASE WHEN payload.a > 5 THEN 'hot' ELSE 'cold' END", json!("hot")),
        ("CASE payload.b WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", json!("two")),
        ("lower(trim(payload.s)) || '!'", json!("ab!")),
        ("round(payload.f * 1.11, 1)", json!(2.8)),
        ("round(payload.f)", json!(3)),
        ("coalesce(payload.missing, payload.n, 5)", json!(5)),
        ("payload.list[1] + payload.list[-1]", json!(4)),
        ("nth(2, payload.list)", json!(2)),
        ("nth(1, split(topic, '/'))", json!("t")),
        ("payload.o.k", json!("v")),
        ("substr('abcdef', 2, 3)", json!("cde")),
        ("CAST('12' AS int) + 1", json!(13)),
        ("concat('a', 1, true)", json!("a1true")),
        ("now()", json!("2026-03-01T00:00:01.500Z")),
        ("now_timestamp('millisecond')", json!(1_772_323_201_500_u64)),
        ("max(payload.a, payload.b)", json!(7)),
        ("json_decode('[1]')", json!([1])),
    ] {
        assert_eq!(value(expression, &payload), Ok(expected), "{expression}");
    }
    let long = format!("regex_replace(payload.long, 'x', '{}')", "y".repeat(4_000));
    let replaced = format!("replace(payload.long, 'x', '{}')", "y".repeat(4_000));
    for expression in [long, replaced] {
        let error = value(&expression, &json!({ "long": "x".repeat(1_000) })).unwrap_err();
        assert!(error.contains("longer than"), "{error}");
    }
    for expression in [
        "rfc3339_to_unix_ts('now')",
        "rfc3339_to_unix_ts('1970-01-01T00:00:00')",
        "rfc3339_to_unix_ts('1970-01-01T00:00:00Z', payload.s)",
        "now_timestamp(payload.s)",
        "unix_ts_to_rfc3339(1e300)",
        "rfc3339_to_unix_ts('2400-01-01T00:00:00Z', 'nanosecond')",
        "bitand('x', 1)",
        "payload.a / 0",
        "payload.a % 0",
        "payload.o + 1",
        "NOT payload.a",
        "sqrt(-1)",
    ] {
        assert!(value(expression, &payload).is_err(), "{expression}");
    }
}

#[test]
fn functions_give_what_emqx_says() {
    let payload = json!({ "a": 7, "f": 2.5, "s": " Ab ", "n": null, "list": [1, 2, 3], "o": { "k": "v" } });
    for (expression, expected) in [
        ("length(payload.o)", json!(1)),
        ("is_null(payload.missing)", json!(true)),
        ("is_not_null(payload.n)", json!(false)),
        ("is_num(payload.f) AND is_float(payload.f) AND is_int(payload.a) AND NOT is_int(payload.f)", json!(true)),
        ("is_str(payload.s) AND is_array(payload.list) AND is_map(payload.o) AND is_bool(true)", json!(true)),
        ("sublist(2, payload.list)", json!([1, 2])),
        ("sublist(2, 2, payload.list)", json!([2, 3])),
        ("sublist(9, 2, payload.list)", json!([])),
        ("map_put('x', 1, payload.o)", json!({ "k": "v", "x": 1 })),
        ("map_keys(payload.o)", json!(["k"])),
        ("map_values(payload.o)", json!(["v"])),
        ("map_to_entries(payload.o)", json!([{ "key": "k", "value": "v" }])),
        ("map_keys(payload.a)", json!(null)),
        ("bitand(payload.a, 3)", json!(3)),
        ("bitor(bitsl(1, 4), bitxor(payload.a, 1))", json!(22)),
        ("bitsr(-16, 2)", json!(-4)),
        ("bitsl(1, 64)", json!(0)),
        ("bitnot(0)", json!(-1)),
        ("log10(100) + log2(8)", json!(5.0)),
        ("ends_with('abc', 'bc')", json!(true)),
        ("rfc3339_to_unix_ts('1970-01-01T00:01:00Z')", json!(60)),
        ("rfc3339_to_unix_ts('1970-01-01T00:00:00.5Z', 'millisecond')", json!(500)),
        ("rfc3339_to_unix_ts('1970-01-01T01:00:00.000000001+01:00', 'nanosecond')", json!(1)),
        ("rfc3339_to_unix_ts('1970-01-01T00:00:00.25-00:30', 'microsecond')", json!(1_800_250_000)),
        ("rfc3339_to_unix_ts('1969-12-31T23:59:59.5Z')", json!(-1)),
        ("rfc3339_to_unix_ts('1969-12-31T23:59:59.5Z', 'millisecond')", json!(-500)),
        ("now_timestamp('second')", json!(1_772_323_201)),
        ("now_timestamp('microsecond')", json!(1_772_323_201_500_000_u64)),
        ("now_timestamp('nanosecond')", json!(1_772_323_201_500_000_000_u64)),
        ("unix_ts_to_rfc3339(1772323201)", json!("2026-03-01T00:00:01.000Z")),
        ("unix_ts_to_rfc3339(1772323201500)", json!("2026-03-01T00:00:01.500Z")),
        ("unix_ts_to_rfc3339(1772323201500000, 'microsecond')", json!("2026-03-01T00:00:01.500Z")),
        ("unix_ts_to_rfc3339(1772323201500000000, 'nanosecond')", json!("2026-03-01T00:00:01.500Z")),
        ("unix_ts_to_rfc3339(-1, 'second')", json!("1969-12-31T23:59:59.000Z")),
        ("sha256('')", json!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        ("sha('')", json!("da39a3ee5e6b4b0d3255bfef95601890afd80709")),
        ("md5('')", json!("d41d8cd98f00b204e9800998ecf8427e")),
        ("sprintf('hello ~s~n', 'steve')", json!("hello steve\n")),
        ("sprintf_s('~p: ~b of ~.2f ~~ ~f', 'a', 7.9, 2.5, 1)", json!("a: 7 of 2.50 ~ 1.000000")),
        ("sprintf('none')", json!("none")),
        (r"regex_match(payload.s, '^\s\w+\s$')", json!(true)),
        ("regex_replace('a1b22', '[0-9]+', '-')", json!("a-b-")),
        ("regex_extract('id=7;x', 'id=([0-9]+);(y?)')", json!(["7", ""])),
        ("regex_extract('none', '([0-9])')", json!(null)),
        ("regex_match(payload.missing, 'a')", json!(null)),
        ("regex_match('ÄB', '(?i)äb')", json!(true)),
        ("9223372036854775807 + 1", json!(9.223_372_036_854_776e18)),
    ] {
        assert_eq!(value(expression, &payload), Ok(expected), "{expression}");
    }
}

#[test]
fn an_identifier_stays_when_its_message_comes_again() {
    let made = || select("SELECT uuid_v4() AS a, uuid_v4() AS b, uuid_v4_no_hyphen() AS c FROM 't'", "t", &json!(1));
    let row = made().unwrap().unwrap();
    let texts: Vec<&str> = ["a", "b", "c"].iter().filter_map(|name| row[*name].as_str()).collect();
    assert_eq!(texts.iter().map(|text| text.len()).collect::<Vec<_>>(), [36, 36, 32]);
    assert_ne!(texts[0], texts[1]);
    assert_eq!((&texts[0][14..15], texts[0].matches('-').count()), ("4", 4));
    assert!("89ab".contains(&texts[0][19..20]), "{}", texts[0]);
    assert_eq!(made().unwrap().unwrap(), row);
    for wrong in ["'~s'", "'~q', 1", "'~.f', 1", "'~', 1", "'none', 1", "'~b', 'x'"] {
        assert!(value(&format!("sprintf({wrong})"), &json!(1)).is_err(), "{wrong}");
    }
}

#[test]
fn operators_of_emqx_are_understood() {
    let payload = json!({ "a": 7, "b": 2, "f": 2.5, "s": " Ab ", "n": null, "list": [1, 2, 3], "o": { "k": "v" } });
    for (expression, expected) in [
        ("payload.a = '7' AND '7.0' = payload.a AND payload.a > ' 6.5 ' AND payload.a <> 'warm'", json!(true)),
        ("payload.a < 'warm'", json!(null)),
        ("payload.a IN ('6', '7') AND '7' BETWEEN 6 AND 8", json!(true)),
        ("(payload.a = 7) = 'true' AND false = 'false' AND true <> 'yes'", json!(true)),
        ("payload.a DIV payload.b + 7 mod 4 * 2", json!(9)),
        ("-7.5 div 2", json!(-3)),
        ("mod(payload.a, 2) + payload.mod + payload.div", json!(null)),
        ("topic =~ '+' AND NOT topic =~ 'u/#' AND (payload.missing =~ '#') IS NULL", json!(true)),
        ("[1, payload.a, [topic]]", json!([1, 7, ["t"]])),
        ("[]", json!([])),
        ("payload.list[1..2]", json!([1, 2])),
        ("payload.list[2..-1]", json!([2, 3])),
        ("payload.list[-2..9][1]", json!(2)),
        ("payload.list[3..1]", json!([])),
        ("payload.o[1..2]", json!(null)),
        ("nth(2, tokens('a, b;c', ' ,;'))", json!("b")),
    ] {
        assert_eq!(value(expression, &payload), Ok(expected), "{expression}");
    }
}

#[test]
fn texts_and_dates_are_as_in_emqx() {
    let payload = json!({ "a": 7, "b": 2, "f": 2.5, "s": " Ab ", "n": null, "list": [1, 2, 3], "o": { "k": "v" } });
    for (expression, expected) in [
        ("split('a//b', '/')", json!(["a", "b"])),
        ("split('a//b', '/', 'notrim')", json!(["a", "", "b"])),
        ("split('a/b/c', '/', 'leading')", json!(["a", "b/c"])),
        ("split('a/b/c', '/', 'trailing')", json!(["a/b", "c"])),
        ("split('/b', '/', 'leading_notrim')", json!(["", "b"])),
        ("find('a/b/c', '/')", json!("/b/c")),
        ("find('a/b/c', '/', 'trailing')", json!("/c")),
        ("find('abc', '/')", json!("")),
        ("pad('7', 3) || '|' || pad('7', 3, 'leading', '0') || '|' || pad('7', 4, 'both', '*')", json!("7  |007|*7**")),
        ("pad('abc', 2)", json!("abc")),
        ("join_to_string('-', payload.list)", json!("1-2-3")),
        ("join_to_string(['a', 'b'])", json!("a, b")),
        ("rm_prefix('plant/a', 'plant/') || rm_prefix('a', 'b')", json!("aa")),
        ("ascii('a')", json!(97)),
        ("bin2hexstr('Az~')", json!("417a7e")),
        ("hexstr2bin('417A7e')", json!("Az~")),
        ("float2str(20.25, 10)", json!("20.25")),
        ("float2str(2, 3)", json!("2.0")),
        ("float('1.23456', 2)", json!(1.23)),
        ("round(cos(0) + sin(0) + atanh(0) + acosh(1), 6)", json!(1.0)),
        ("fmod(-32, 5)", json!(-2)),
        ("is_empty([]) AND is_empty('') AND NOT is_empty(payload.o) AND is_null_var(payload.missing)", json!(true)),
        ("map_get('k', payload.o) || map_get('o.k', payload)", json!("vv")),
        ("map_get('o.x', payload, 5)", json!(5)),
        ("map_put('a.b', 1, payload.o)", json!({ "k": "v", "a": { "b": 1 } })),
        ("map_put('a.b', 1, json_decode('{\"a.b\": 0}'))", json!({ "a.b": 1 })),
        ("format_date('second', '+08:00', '%Y-%m-%d %H:%M:%S%:z', 1772323201)", json!("2026-03-01 08:00:01+08:00")),
        (
            "format_date('millisecond', '-0330', '%d.%m.%Y %H:%M:%S.%3N %z %q', 1772323201500)",
            json!("28.02.2026 20:30:01.500 -0330 %q"),
        ),
        ("format_date('second', 3600, '%H', payload.missing)", json!(null)),
        ("date_to_unix_ts('second', '%Y-%m-%d %H:%M:%S%:z', '2026-03-01 08:00:01+08:00')", json!(1_772_323_201)),
        (
            "date_to_unix_ts('millisecond', '+08:00', '%Y%m%d%H%M%S.%3N', '20260301080001.500')",
            json!(1_772_323_201_500_u64),
        ),
    ] {
        assert_eq!(value(expression, &payload), Ok(expected), "{expression}");
    }
    for expression in [
        "split('a', '/', 'left')",
        "pad('a', 9, 'left')",
        "pad('a', 9000000)",
        "join_to_string(payload.a)",
        "hexstr2bin('abc')",
        "hexstr2bin('zz')",
        "hexstr2bin('ff')",
        "acos(2)",
        "payload.a div 0",
        "payload.f div 0",
        "format_date('second', 'home', '%Y', 0)",
        "format_date('second', 'Z', '%Y', 1e300)",
        "date_to_unix_ts('second', '%Y', '12')",
        "date_to_unix_ts('second', '%Y', '2026-')",
    ] {
        assert!(value(expression, &payload).is_err(), "{expression}");
    }
}

#[test]
fn columns_are_named_by_later_ones_and_in_where() {
    let payload = json!({ "temp": 31, "text": "{\"x\": {\"y\": 1}}", "clientid": "own" });
    let row = |sql: &str| select(sql, "t/1", &payload).map_err(|error| panic!("{sql}: {error}")).unwrap();
    let sql = "SELECT payload.temp AS t, t * 2 AS twice, twice + t AS both FROM 't/#' WHERE t > 30 AND twice = 62";
    assert_eq!(row(sql), Some(json!({ "t": 31, "twice": 62, "both": 93 })));
    assert_eq!(row("SELECT payload.temp AS t FROM 't/#' WHERE t > 31"), None);
    let decoded = "SELECT json_decode(payload.text) AS p, p.x AS x FROM 't/#' WHERE p.x.y = 1 AND p['x'].y = 1";
    assert_eq!(row(decoded).unwrap()["x"], json!({ "y": 1 }));
    // In the place of a field of the message, but not in its own expression.
    let hidden = "SELECT upper(clientid) AS clientid, payload.clientid AS topic FROM 't/#' WHERE topic = 'own' AND clientid = 'PUMP-7'";
    assert_eq!(row(hidden), Some(json!({ "clientid": "PUMP-7", "topic": "own" })));
    let within = "SELECT payload.temp AS pump.temp, topic AS pump.at.topic, 1 AS one FROM 't/#'";
    assert_eq!(row(within), Some(json!({ "pump": { "temp": 31, "at": { "topic": "t/1" } }, "one": 1 })));
    let list = json!({ "list": [{ "v": 1 }, { "v": 2 }] });
    let each = each("FOREACH payload.list AS s DO s.v AS v, v + 1 AS next INCASE s.v > 0 FROM 't'", &list).unwrap();
    assert_eq!((each[0].1.as_str(), each[1].1.as_str()), (r#"{"v":1,"next":2}"#, r#"{"v":2,"next":3}"#));
    // A chain of columns is as deep as one expression may be.
    let chain: Vec<String> = (1..200).map(|number| format!("a{} + 1 AS a{number}", number - 1)).collect();
    let error = select(&format!("SELECT 1 AS a0, {} FROM 't'", chain.join(", ")), "t", &payload).unwrap_err();
    assert!(error.contains("nested more than 100 deep"), "{error}");
    let doubled: Vec<String> = (1..40).map(|number| format!("a{0} + a{0} AS a{number}", number - 1)).collect();
    let sql = format!("SELECT 1 AS a0, {} FROM 't' WHERE a39 > 1", doubled.join(", "));
    assert_eq!(select(&sql, "t", &payload).unwrap().unwrap()["a39"], json!(1_u64 << 39));
}

#[test]
fn columns_of_a_window_are_named_behind_select() {
    let settings =
        |sql: &str| StepSettings { sql: Some(sql.to_owned()), every: Some(1_000), ..StepSettings::default() };
    let sql = "SELECT clientid AS who, avg(payload.temp) AS mean, mean * 2 AS twice, max(t) AS most, payload.temp AS t \
        FROM 't' WHERE who = 'pump-7' GROUP BY who";
    let error = Steps::new(&settings(sql)).unwrap_err().1;
    assert!(error.to_string().contains("there is no `t`"), "{error}");
    let sql = "SELECT clientid AS who, payload.temp AS t, avg(t) AS mean, mean * 2 AS twice FROM 't' WHERE t > 1 GROUP BY who";
    let record =
        Steps::new(&settings(sql)).unwrap().run(&message("t", &json!({ "temp": 20 })), 0).unwrap().first.unwrap();
    assert_eq!(Value::Object(record.object()), json!({ "who": "pump-7", "t": 20, "mean": 20.0, "twice": 40.0 }));
    for wrong in [
        "SELECT count(*) AS n FROM 't' WHERE n > 1",
        "SELECT window_start AS w FROM 't' GROUP BY w",
        "SELECT count(*) AS n, n + 1 AS m, sum(m) AS s FROM 't'",
    ] {
        let error = Steps::new(&settings(wrong)).unwrap_err().1;
        assert!(error.to_string().contains("of the messages of a window"), "{wrong}: {error}");
    }
}

#[test]
fn a_bad_statement_is_refused_with_its_place() {
    for (sql, place, said) in [
        ("SELECT FROM 't' WHERE", None, "xpected"),
        ("SELECT FROM 't'", Some((1, 1, 1)), "names no field"),
        ("SELECT FROM WHERE", Some((1, 1, 1)), "names no field"),
        ("SELECT payload.a FROM 't' WHERE payload.a >", None, "xpected"),
        ("SELECT 7 ~~ 2 AS x FROM 't'", None, "not understood"),
        ("SELECT topic =~ clientid AS x FROM 't'", Some((1, 17, 8)), "a topic filter in single quotes"),
        ("SELECT topic =~ 'a/#/b' AS x FROM 't'", Some((1, 17, 1)), "a/#/b"),
        ("SELECT topic FROM 't' WHERE clientid = \"pump\"", Some((1, 40, 1)), "single quotes, as in 'pump'"),
        ("SELECT t + 1 AS u, topic AS t FROM 't'", Some((1, 8, 1)), "there is no `t`"),
        ("FOREACH payload.list AS s DO s.x AS x FROM 't' WHERE x > 1", Some((1, 54, 1)), "there is no `x`"),
        ("SELECT temp FROM 't'", Some((1, 8, 4)), "payload.temp"),
        ("SELECT uper(topic) AS x FROM 't'", Some((1, 8, 4)), "no function `uper`"),
        ("SELECT jq('.a', payload) AS x FROM 't'", Some((1, 8, 2)), "no function `jq`: write a path"),
        ("FOREACH payload.at AS, payload.list FROM 't'", None, "AS needs"),
        ("SELECT topic FROM 't'\nWHERE node = 'a'", Some((2, 7, 4)), "does not carry it"),
        ("SELECT topic FROM 'a/#/b'", None, "FROM"),
        ("SELECT topic", None, "no FROM"),
        ("SELECT count(*) FROM 't'", Some((1, 8, 5)), "set `every`"),
        ("SELECT topic FROM 't' GROUP BY topic", Some((1, 1, 1)), "only SELECT, FOREACH, FROM and WHERE"),
        ("DELETE FROM t", None, "one statement"),
        ("SELECT regex_match(topic, clientid) AS x FROM 't'", Some((1, 8, 11)), "'PATTERN'"),
        ("SELECT regex_match(topic, '(') AS x FROM 't'", Some((1, 8, 11)), "cannot be read"),
        ("SELECT now_timestamp('minute') AS x FROM 't'", Some((1, 8, 13)), "`minute` is no unit"),
        ("SELECT topic FROM \"$events/client_connected\"", Some((1, 19, 1)), "clients/+/connected"),
        ("SELECT topic FROM '$events/message_dropped'", None, "no such event"),
        ("FOREACH payload.list", None, "no FROM"),
        ("FOREACH payload.list AS FROM 't'", Some((1, 22, 1)), "AS needs"),
        ("FOREACH payload.list extra FROM 't'", Some((1, 22, 5)), "`extra` is not expected"),
        ("FOREACH payload.list AS s DO s.x FROM 't' WHERE s.x > 1", Some((1, 49, 1)), "there is no `s`"),
        ("SELECT item.x FROM 't'", Some((1, 8, 1)), "there is no `item`"),
        ("SELECT paylod.x FROM 't'", Some((1, 8, 1)), "did you mean `payload`?;"),
        (
            "SELECT topik FROM 't'",
            Some((1, 8, 1)),
            "did you mean `topic`? For a field of the payload write `payload.topik`",
        ),
        ("SELECT lower(topic, qos) AS x FROM 't'", Some((1, 8, 5)), "takes 1 values, not 2"),
    ] {
        let error = Sql::new(sql, false, &Tables::default()).unwrap_err();
        assert!(error.message.contains(said), "{sql}: {error}");
        if let Some((line, column, len)) = place {
            let at = error.at.unwrap_or_else(|| panic!("{sql}: no place"));
            assert_eq!((at.line, at.column), (line, column), "{sql}");
            assert!(at.len >= len || len == 1, "{sql}: {at:?}");
        }
    }
    assert!(Sql::new(&format!("SELECT {}1 AS x FROM 't'", "1+".repeat(3_000)), false, &Tables::default()).is_err());
    assert!(
        Sql::new(
            &format!("SELECT {}1{} AS x FROM 't'", "(".repeat(3_000), ")".repeat(3_000)),
            false,
            &Tables::default()
        )
        .is_err()
    );
}

#[test]
fn cel_filters_sets_and_routes() {
    let settings = StepSettings {
        filter: Some("payload.temp > 30.0 && clientid.startsWith('pump-')".into()),
        set: vec!["temp_f = payload.temp * 1.8 + 32.0".into(), "twice = row.temp_f * 2.0".into()],
        topic: Some("'out/' + clientid".into()),
        key: Some("clientid".into()),
        ..StepSettings::default()
    };
    let steps = Steps::new(&settings).unwrap();
    assert_eq!(steps.run(&message("t", &json!({ "temp": 20.0 })), 0), Ok(Records::default()));
    let record = steps.run(&message("t", &json!({ "temp": 40.0 })), 0).unwrap().first.unwrap();
    assert_eq!((record.topic(), record.key()), ("out/pump-7", "pump-7"));
    assert_eq!((&record.object()["temp_f"], &record.object()["twice"]), (&json!(104.0), &json!(208.0)));
    assert_eq!(record.original(), None, "the sinks get the fields");
}

#[test]
fn a_constant_of_the_wrong_kind_is_refused() {
    let refused = |filter: Option<&str>, topic: Option<&str>| {
        let (filter, topic) = (filter.map(str::to_owned), topic.map(str::to_owned));
        let settings = StepSettings { filter, topic, ..StepSettings::default() };
        Steps::new(&settings).err().map(|(part, error)| (part, error.to_string()))
    };
    let (part, why) = refused(None, Some("5")).unwrap();
    assert_eq!(part, Part::Topic);
    assert!(why.contains("always 5, and has to be text"), "{why}");
    let (_, why) = refused(None, Some("'out/${clientid}'")).unwrap();
    assert!(why.contains("names in ${} are not filled in"), "{why}");
    let (part, why) = refused(Some("1 + 1"), None).unwrap();
    assert_eq!(part, Part::Filter);
    assert!(why.contains("always 2, and has to be true or false"), "{why}");
    let (_, why) = refused(Some("1 / 0 == 1"), None).unwrap();
    assert!(why.contains("it fails for each message"), "{why}");
    assert_eq!(refused(Some("true"), Some("'out'")), None);
    assert_eq!(refused(Some("payload.temp > 1"), Some("payload.topic")), None, "a message decides about the kind");
    assert_eq!(refused(Some("row.temp"), Some("clientid")), None, "a message decides about the kind");
}

#[test]
fn a_bad_expression_is_refused_with_its_place() {
    let error = |text: &str| Cel::new(text, &Tables::default()).unwrap_err();
    let unknown = error("payload.temp > limit");
    assert_eq!(unknown.at, Some(At { line: 1, column: 16, len: 5 }));
    assert!(error("payload.temp >").at.is_some(), "{}", error("payload.temp >"));
    let settings = StepSettings { set: vec!["no expression".into()], ..StepSettings::default() };
    assert_eq!(Steps::new(&settings).unwrap_err().0, Part::Set(0));
}

#[test]
fn a_statement_that_breaks_off_is_wrong_at_its_end() {
    let error = Sql::new("SELECT payload.a AS ä\nFROM 't' WHERE payload.a > ", false, &Tables::default()).unwrap_err();
    assert_eq!(error.at, Some(At { line: 2, column: 26, len: 1 }), "{error}");
    assert!(error.message.ends_with("found: the end"), "{error}");
}

#[test]
fn a_payload_not_of_its_format_fails_where_fields_are_read() {
    let bad = Arc::new(Message { payload: b"{".to_vec(), ..Message::clone(&message("t", &json!(0))) });
    let run = |sql: &str| {
        let settings = StepSettings { sql: Some(sql.to_owned()), ..StepSettings::default() };
        Steps::new(&settings).unwrap().run(&bad, 0).map_err(|error| error.to_string())
    };
    assert!(run("SELECT payload.a AS a FROM 't'").unwrap_err().contains("not JSON"));
    assert!(!run("SELECT topic FROM 't'").unwrap().is_empty());
    let all = Steps::new(&StepSettings::default()).unwrap().run(&bad, 0).unwrap().first.unwrap();
    assert_eq!((all.object()["payload"].clone(), all.body()), (json!("{"), b"{".to_vec()));
}

#[test]
fn each_step_shows_its_result() {
    let settings = StepSettings {
        sql: Some("SELECT payload.a AS a FROM 't'".into()),
        set: vec!["b = row.a + 1".into()],
        ..StepSettings::default()
    };
    let mut seen = Vec::new();
    let steps = Steps::new(&settings).unwrap();
    steps
        .run_shown(&message("t", &json!({ "a": 1 })), 0, &mut |step, value| seen.push((step, value.to_string())))
        .unwrap();
    assert_eq!(seen, [("sql", r#"{"a":1}"#.to_owned()), ("set", r#"{"a":1,"b":2}"#.to_owned())]);
}

#[test]
fn a_place_is_a_range_of_bytes() {
    let text = "SELECT ä\nFROM 't'";
    assert_eq!(At { line: 1, column: 8, len: 1 }.bytes_in(text), Some(7..9));
    assert_eq!(At { line: 2, column: 1, len: 4 }.bytes_in(text), Some(10..14));
    assert_eq!(At::point(9, 1).bytes_in(text), None);
}

#[test]
fn a_forwarded_message_is_whole_and_has_its_key() {
    let settings = StepSettings {
        filter: Some("payload.k > 0".into()),
        key: Some("string(payload.k)".into()),
        forwards: true,
        ..StepSettings::default()
    };
    let steps = Steps::new(&settings).unwrap();
    for (payload, key) in [("{\"k\":7}", "7"), ("{\"k\":0}", "t/a"), ("no json", "t/a")] {
        let message = Arc::new(Message {
            id: "i".into(),
            lasting_id: true,
            topic: "t/a".into(),
            payload: payload.as_bytes().to_vec(),
            ..Message::default()
        });
        let record = steps.run(&message, 0).unwrap().first.unwrap();
        assert_eq!(record.key(), key, "{payload}");
        assert_eq!(Message::from_bytes(&record.body()).as_ref(), Some(&*message));
    }
}

#[test]
fn payloads_are_sent_in_the_format_of_encode() {
    let message = message("t", &json!({ "a": 1 }));
    let body =
        |settings: &StepSettings| Steps::new(settings).unwrap().run(&message, 0).map(|it| it.first.unwrap().body());
    let packed = StepSettings { encode: Some(Format::MessagePack), ..StepSettings::default() };
    assert_eq!(body(&packed).unwrap(), b"\x81\xa1a\x01");
    let row =
        StepSettings { set: vec!["b = payload.a".into()], sql: Some("SELECT topic FROM 't'".into()), ..packed.clone() };
    assert_eq!(Format::MessagePack.decode(&body(&row).unwrap()).unwrap(), json!({ "topic": "t", "b": 1 }));
    let same = StepSettings { encode: Some(Format::Json), ..StepSettings::default() };
    assert_eq!(body(&same).unwrap(), message.payload);
    let wrong = StepSettings { format: Format::Cbor, ..packed };
    let error = body(&wrong).unwrap_err().to_string();
    assert!(error.starts_with("encode: the payload is not CBOR"), "{error}");
}

/// The records of a message, as JSON in the order of their fields, with their ids.
fn each(sql: &str, payload: &Value) -> Result<Vec<(String, String)>, String> {
    let settings = StepSettings { sql: Some(sql.to_owned()), ..StepSettings::default() };
    let steps = Steps::new(&settings).map_err(|(_, error)| error.to_string())?;
    let records = steps.run(&message("t", payload), 0).map_err(|error| error.to_string())?;
    Ok(records.into_iter().map(|record| (record.id().to_owned(), record.json())).collect())
}

#[test]
fn foreach_makes_a_record_of_each_element() {
    let payload =
        json!({ "at": 5, "list": [{ "n": "a", "v": 1 }, { "n": "b", "v": 7 }, { "n": "c", "v": 9 }], "few": [1, 2] });
    let own = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    let sql = "FOREACH payload.list AS s DO s.v + payload.at AS v, s.n AS name, clientid INCASE s.v > 5 FROM 't' WHERE payload.at = 5";
    let rows = each(sql, &payload).unwrap();
    let first = r#"{"v":12,"name":"b","clientid":"pump-7"}"#;
    assert_eq!(rows, [own("m-1.2", first), own("m-1.3", r#"{"v":14,"name":"c","clientid":"pump-7"}"#)]);
    assert_eq!(each("foreach payload.list from 't'", &payload).unwrap()[0], own("m-1.1", r#"{"n":"a","v":1}"#));
    assert_eq!(each("FOREACH payload.few FROM 't'", &payload).unwrap()[1], own("m-1.2", r#"{"item":2}"#));
    let nested = "FOREACH json_decode('[[1],[2]]') AS s DO s[1] AS x FROM 't'";
    assert_eq!(each(nested, &payload).unwrap()[1], own("m-1.2", r#"{"x":2}"#));
    let words = json!({ "from": [{ "do": 1, "as": 2, "incase": 3 }] });
    let of_words = "FOREACH payload.from AS s DO s.do AS a, s.as AS b, s.from AS c INCASE s.incase = 3 FROM 't'";
    assert_eq!(each(of_words, &words).unwrap(), [own("m-1.1", r#"{"a":1,"b":2,"c":null}"#)]);
    // As in EMQX the last field is the list.
    let several = "FOREACH payload.at + 1 AS base, clientid, concat(topic, '!') AS label, payload.list AS s \
                   DO base, label AS name, s.v + base AS v INCASE s.v > base FROM 't'";
    let expected = [own("m-1.2", r#"{"base":6,"name":"t!","v":13}"#), own("m-1.3", r#"{"base":6,"name":"t!","v":15}"#)];
    assert_eq!(each(several, &payload).unwrap(), expected);
    let once = each("FOREACH uuid_v4() AS id, payload.list AS s DO id INCASE s.v > 1 AND id <> '' FROM 't'", &payload)
        .unwrap();
    assert!(once.len() == 2 && once[0].1 == once[1].1, "of the message: {once:?}");
    assert!(each("FOREACH payload.missing FROM 't'", &payload).unwrap().is_empty());
    assert!(each("FOREACH payload.list FROM 't' WHERE payload.at > 5", &payload).unwrap().is_empty());
    assert!(each("FOREACH payload.at FROM 't'", &payload).unwrap_err().contains("needs an array"));
    let long: Vec<u32> = (0..1_001).collect();
    assert!(each("FOREACH payload FROM 't'", &json!(long)).unwrap_err().contains("at most 1000"));
}

#[test]
fn the_memory_of_the_records_of_a_foreach_is_bounded() {
    let run = |sql: &str, set: &[&str], payload: &Value| {
        let set = set.iter().map(|text| (*text).to_owned()).collect();
        let settings = StepSettings { sql: Some(sql.to_owned()), set, ..StepSettings::default() };
        let records = Steps::new(&settings).unwrap().run(&message("t", payload), 0);
        records.map(|records| (records.len(), records.bytes)).map_err(|error| error.to_string())
    };
    let list = |elements: usize, size: usize| json!(vec!["x".repeat(size); elements]);
    // Each of 1,000 records has the whole payload of 1 MB.
    for (sql, set) in [
        ("FOREACH payload DO * FROM 't'", &[][..]),
        ("FOREACH payload DO payload AS all FROM 't'", &[]),
        ("FOREACH payload FROM 't'", &["all = payload"]),
    ] {
        let error = run(sql, set, &list(1_000, 1_000)).unwrap_err();
        assert!(error.starts_with("sql: the records of FOREACH take more than 4194304 bytes"), "{sql}: {error}");
        assert_eq!(run(sql, set, &list(3, 1_000)).unwrap().0, 3, "{sql}");
    }
    // Small values take more memory than text.
    assert!(run("FOREACH payload DO payload AS all FROM 't'", &[], &json!(vec![json!([]); 500])).is_err());
    let (records, bytes) = run("FOREACH payload FROM 't'", &[], &list(1_000, 1_000)).unwrap();
    assert!(records == 1_000 && (1_000_000..2_000_000).contains(&bytes), "{records} records of {bytes} bytes");
}

#[test]
fn records_of_a_foreach_have_their_own_topics() {
    let settings = StepSettings {
        sql: Some("FOREACH payload AS s DO s.n AS n, s.v AS v FROM 't'".into()),
        topic: Some("'out/' + row.n".into()),
        encode: Some(Format::MessagePack),
        ..StepSettings::default()
    };
    let records = Steps::new(&settings).unwrap().run(&message("t", &json!([{ "v": 1, "n": "a" }])), 0).unwrap();
    let record = records.into_iter().next().unwrap();
    assert_eq!((record.topic(), record.body()), ("out/a", b"\x82\xa1n\xa1a\xa1v\x01".to_vec()), "the order of DO");
}

#[test]
fn a_window_of_one_message_is_shown() {
    let sql = "SELECT clientid, count(*) AS n, avg(payload.temp) AS mean, last_value(payload.temp) AS last, window_end FROM 't' GROUP BY clientid";
    let settings = StepSettings {
        sql: Some(sql.to_owned()),
        every: Some(60_000),
        set: vec!["f = row.mean * 1.8 + 32.0".to_owned()],
        key: Some("row.clientid".to_owned()),
        ..StepSettings::default()
    };
    let steps = Steps::new(&settings).unwrap();
    assert_eq!((steps.every(), steps.takes_all()), (Some(60_000), false));
    let mut seen = Vec::new();
    let records = steps
        .run_shown(&message("t", &json!({ "temp": 20.0 })), 0, &mut |step, value| seen.push((step, value.to_string())));
    let record = records.unwrap().first.unwrap();
    let fields = json!({ "clientid": "pump-7", "n": 1, "mean": 20.0, "last": 20.0, "window_end": 1_772_323_260_000_u64, "f": 68.0 });
    assert_eq!((record.key(), Value::Object(record.object())), ("pump-7", fields));
    let shown: Vec<_> = seen.iter().map(|(step, _)| *step).collect();
    assert_eq!(shown, ["sql", "set", "key"]);
}

#[test]
fn aggregates_that_have_no_window_are_refused() {
    let refused = |sql: &str, every: Option<u64>| {
        let settings = StepSettings { sql: Some(sql.to_owned()), every, ..StepSettings::default() };
        let (part, error) = Steps::new(&settings).unwrap_err();
        assert_eq!(part, Part::Sql);
        error.to_string()
    };
    for (sql, every, expected) in [
        ("SELECT avg(payload.a) AS a FROM 't'", None, "set `every`"),
        ("SELECT topic FROM 't' GROUP BY topic", None, "with `every` GROUP BY"),
        ("SELECT count(*) AS n FROM 't' WHERE count(*) > 1", Some(1_000), "use it behind SELECT"),
        ("SELECT sum(max(payload.a)) AS n FROM 't'", Some(1_000), "not in itself"),
        ("SELECT sum(payload.a, 1) AS n FROM 't'", Some(1_000), "`sum` takes one value"),
        ("SELECT count(*) AS n FROM 't' GROUP BY ALL", Some(1_000), "only SELECT"),
        ("SELECT count(*) OVER () AS n FROM 't'", Some(1_000), "OVER"),
    ] {
        let said = refused(sql, every);
        assert!(said.contains(expected), "{sql}: {said}");
    }
    let settings = StepSettings { sql: Some("SELECT window_start FROM 't'".to_owned()), ..StepSettings::default() };
    assert!(Steps::new(&settings).is_err(), "there is no window");
}

#[test]
fn texts_that_are_numbers_are_summed_and_others_fail() {
    let sql = "SELECT sum(payload.a) AS sum FROM 't'";
    let settings = StepSettings { sql: Some(sql.to_owned()), every: Some(1_000), ..StepSettings::default() };
    let steps = Steps::new(&settings).unwrap();
    let sum = |value: Value| {
        steps.run(&message("t", &json!({ "a": value })), 0).map(|it| it.first.unwrap().object()["sum"].clone())
    };
    assert_eq!(sum(json!("2.5")).unwrap(), json!(2.5));
    assert_eq!(sum(json!(null)).unwrap(), json!(null));
    assert!(sum(json!("warm")).unwrap_err().to_string().contains("a number is needed"));
    let long = StepSettings { sql: Some("SELECT count(*) AS n FROM 't' GROUP BY payload.a".to_owned()), ..settings };
    let error = Steps::new(&long).unwrap().run(&message("t", &json!({ "a": "x".repeat(5_000) })), 0).unwrap_err();
    assert!(error.to_string().contains("GROUP BY are longer"), "{error}");
}

#[test]
fn a_payload_has_to_fulfil_its_schema() {
    let folder = std::env::temp_dir().join(format!("tidegate-steps-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("reading.json");
    std::fs::write(&file, r#"{"required": ["temp"], "properties": {"temp": {"type": "number"}}}"#).unwrap();
    let steps = |drops_invalid, every: Option<u64>| {
        let sql = every.map(|_| "SELECT count(*) AS n FROM 't'".to_owned());
        let settings =
            StepSettings { schema: Some(file.clone()), drops_invalid, sql, every, ..StepSettings::default() };
        Steps::new(&settings).unwrap()
    };
    let (right, wrong) = (message("t", &json!({ "temp": 1 })), message("t", &json!({ "temp": "warm" })));
    let text = Arc::new(Message { payload: b"no JSON".to_vec(), ..Message::clone(&right) });
    for every in [None, Some(1_000)] {
        for drops in [false, true] {
            let steps = steps(drops, every);
            assert_eq!(steps.run(&right, 0).unwrap().len(), 1);
            assert_eq!(steps.takes_all(), !drops && every.is_none());
            assert_eq!(steps.passes_all(), None);
            for invalid in [&wrong, &text] {
                match steps.run(invalid, 0) {
                    Ok(records) => assert!(drops && records.is_empty()),
                    Err(error) => assert!(!drops && error.to_string().starts_with("schema: "), "{error}"),
                }
            }
        }
    }
    let missing = StepSettings { schema: Some(folder.join("none.json")), ..StepSettings::default() };
    let (part, error) = Steps::new(&missing).unwrap_err();
    assert!(part == Part::Schema && error.to_string().contains("none.json"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn payloads_of_avro_are_json_for_all_steps() {
    let folder = std::env::temp_dir().join(format!("tidegate-avro-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("temp.avsc");
    std::fs::write(&file, r#"{"type": "record", "name": "R", "fields": [{"name": "temp", "type": "int"}]}"#).unwrap();
    let settings = |sql: Option<&str>, every| StepSettings {
        schema: Some(file.clone()),
        sql: sql.map(str::to_owned),
        every,
        ..StepSettings::default()
    };
    let reading = Arc::new(Message { payload: vec![60], ..Message::clone(&message("t", &json!(null))) });
    let record = |settings: &StepSettings| Steps::new(settings).unwrap().run(&reading, 0).unwrap().first.unwrap();
    assert_eq!(record(&settings(None, None)).body(), b"{\"temp\":30}");
    assert_eq!(record(&settings(Some("SELECT payload.temp AS t FROM 't'"), None)).object()["t"], 30);
    let window = settings(Some("SELECT max(payload.temp) AS m, payload.temp AS t FROM 't'"), Some(1_000));
    assert_eq!(Value::Object(record(&window).object()), json!({ "m": 30, "t": 30 }));
    let wrong = Arc::new(Message { payload: vec![], ..Message::clone(&reading) });
    let error = Steps::new(&window).unwrap().run(&wrong, 0).unwrap_err();
    assert!(error.to_string().starts_with("schema: the payload is not Avro"), "{error}");
    let dropping = StepSettings { drops_invalid: true, ..window.clone() };
    assert!(Steps::new(&dropping).unwrap().run(&wrong, 0).unwrap().is_empty());
    let other = StepSettings { format: Format::Cbor, ..window };
    assert!(Steps::new(&other).unwrap_err().1.to_string().contains("leave out `format`"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn messages_are_joined_with_rows_of_a_table() {
    let folder = std::env::temp_dir().join(format!("tidegate-join-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("pumps.csv");
    std::fs::write(&file, "id,site,limit\na,hall,30\nb,yard,\n").unwrap();
    let tables = vec![format!("pumps = {}#id", file.display())];
    let steps = |settings: StepSettings| Steps::new(&StepSettings { tables: tables.clone(), ..settings });
    let run = |settings: &StepSettings, payload: &Value| {
        let steps = steps(settings.clone()).map_err(|(_, error)| error.to_string())?;
        let records = steps.run(&message("t", payload), 0).map_err(|error| error.to_string())?;
        Ok::<Option<Value>, String>(records.first.map(|record| serde_json::from_str(&record.json()).unwrap()))
    };
    let sql = |text: &str| StepSettings { sql: Some(text.to_owned()), ..StepSettings::default() };
    let (known, unknown) = (json!({ "pump": "a", "temp": 31 }), json!({ "pump": "x", "temp": 31 }));
    let joined = sql("SELECT payload.temp AS temp, lookup('pumps', payload.pump, 'site') AS site, \
        lookup('pumps', payload.pump).limit AS most FROM 't'");
    assert_eq!(run(&joined, &known), Ok(Some(json!({ "temp": 31, "site": "hall", "most": 30 }))));
    assert_eq!(run(&joined, &unknown), Ok(Some(json!({ "temp": 31, "site": null, "most": null }))));
    let inner =
        sql("SELECT lookup('pumps', payload.pump) AS row FROM 't' WHERE lookup('pumps', payload.pump) IS NOT NULL");
    assert_eq!(run(&inner, &unknown), Ok(None));
    let row = json!({ "row": { "id": "a", "site": "hall", "limit": 30 } });
    assert_eq!(run(&inner, &known), Ok(Some(row)));
    let cel = StepSettings {
        filter: Some("payload.temp > lookup('pumps', payload.pump, 'limit')".into()),
        set: vec!["site = lookup('pumps', payload.pump).site".into()],
        ..StepSettings::default()
    };
    assert_eq!(run(&cel, &known).unwrap().unwrap()["site"], "hall");
    assert_eq!(run(&cel, &json!({ "pump": "a", "temp": 30 })), Ok(None));
    for settings in [joined, cel] {
        let demanding = StepSettings { demands_rows: true, ..settings };
        let error = run(&demanding, &unknown).unwrap_err();
        assert!(error.contains("the table `pumps` has no row \"x\""), "{error}");
    }
    for (wrong, said) in [
        ("SELECT lookup('other', payload.pump) AS a FROM 't'", "no table `other`"),
        ("SELECT lookup(payload.pump, 'pumps') AS a FROM 't'", "a table in quotes"),
        ("SELECT lookup('pumps') AS a FROM 't'", "a table in quotes"),
    ] {
        assert!(run(&sql(wrong), &known).unwrap_err().contains(said), "{wrong}");
    }
    let filter = |text: &str| StepSettings { filter: Some(text.into()), ..StepSettings::default() };
    assert!(run(&filter("lookup('other', 1) == 1"), &known).unwrap_err().contains("no table `other`"));
    let missing = StepSettings { tables: vec!["t = /nowhere.csv#id".into()], ..StepSettings::default() };
    assert_eq!(Steps::new(&missing).unwrap_err().0, Part::Tables);
    std::fs::remove_dir_all(&folder).unwrap();
}
