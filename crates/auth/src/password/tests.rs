use std::os::unix::fs::{MetadataExt, PermissionsExt};

use proptest::prelude::*;

use super::user_file::parse_text;
use super::*;
use crate::scratch::Scratch;

/// Hashes written by `mosquitto_passwd` 2.0.11, and by the reference implementation of Argon2.
const RECORDED: [(&str, &str); 5] = [
    (
        "secret one",
        "$6$ib2+YlVTdamyJ31H$eplWNdpVQtNJN2MvkTq9kqC6nMw7MTWpJg021sC6UaFODOoUvOT/meTnWov6JCEHgsKcGpuGw++hjC4SgGVqAw==",
    ),
    (
        "pässword",
        "$7$101$Xx7DbfE10nnwH546$MOWS/ENUrCOjn/roSHEASwWsprE346goeUqzbe1rzr8ai6F2jy0nwTZhnrt2lCOkwN+TK9vp/fVcVq4XK4fIuw==",
    ),
    (
        "",
        "$7$101$/ZWbyPrFt//R5Ips$xIe5Dpca007q8Qf62hAH5J6LzI9UFwdTmUaBZvDbAHt68VT7XMbGiw859MOeMUq/zfih2ErgXmWKwXoFng+sog==",
    ),
    ("secret two", "$argon2id$v=19$m=1024,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$Er+ZMe2+i18qpRkpH82Qlgx2u2bmplL0BsCqjIBBJ3Y"),
    (
        "pässword",
        "$argon2id$v=19$m=64,t=3,p=2$MDEyMzQ1Njc4OWFiY2RlZg$jl92nkLqrFjbtGA0Fa+79KN/KC1dej8dd+GIB9ok+nn8wz950G67M5cJWJwdioTfi3riDIytCKN4wc/9St/E2g",
    ),
];

/// Of kind `$7$` with one round: cheap.
fn cheap(password: &str) -> PasswordHash {
    PasswordHash::create(HashKind::Pbkdf2Sha512 { rounds: 1 }, password.as_bytes()).unwrap()
}

fn name(text: &str) -> UserName {
    UserName::new(text).unwrap()
}

#[test]
fn hashes_of_other_programs_are_read_as_they_are() {
    for (password, text) in RECORDED {
        let hash = PasswordHash::parse(text).unwrap();
        assert_eq!(hash.verify(password.as_bytes()), Ok(true), "{text}");
        assert_eq!(hash.verify(format!("{password} ").as_bytes()), Ok(false), "{text}");
        assert_eq!(hash.to_string(), text);
    }
}

#[test]
fn digests_of_emqx_and_rabbitmq_are_read() {
    for hash in [
        "$digest-sha256-prefix$c2FsdA==$v2XSYfANr1GMXAvgnp/j2jhth3wI+53PbFhaTQ8ZQbY=",
        "$digest-sha256-suffix$c2FsdA==$GqW2NsRvNhUmWkUh12o6omJqYlbRlP1yXCwuBl3Zktk=",
        "$digest-sha512-prefix$c2FsdA==$ROt3db6++YqeXz5XNmxgJWUhRgUUAynkmzKnA4OdrEYaY/cSyjSulvj8IUl3ZEz4BxfPB29TDKMuhRjkjRsq0Q==",
        "$digest-sha256-unsalted$$JwQvTm7KfQsqfuQCbfLs+lHTM55tEiqgmRGOzYVjutk=",
    ] {
        let parsed = PasswordHash::parse(hash).unwrap();
        assert!(parsed.verify(b"right").unwrap() && !parsed.verify(b"wrong").unwrap(), "{hash}");
        assert_eq!(parsed.to_string(), hash);
    }
    for hash in [
        "$digest-md5-prefix$c2FsdA==$AAAA",
        "$digest-sha256-prefix$$AAAA",
        "$digest-sha256-unsalted$c2FsdA==$AA",
        "$digest-sha256$x$y",
    ] {
        assert!(PasswordHash::parse(hash).is_err(), "{hash}");
    }
}

#[test]
fn a_new_hash_can_be_read_and_is_salted() {
    for kind in [
        HashKind::Argon2id,
        HashKind::Pbkdf2Sha512 { rounds: 3 },
        HashKind::ScramSha256 { rounds: HashKind::SCRAM_ROUNDS_MIN },
    ] {
        let hash = PasswordHash::create(kind, b"hunter2").unwrap();
        let read = PasswordHash::parse(&hash.to_string()).unwrap();
        assert_eq!(read, hash);
        assert_eq!((read.verify(b"hunter2"), read.verify(b"hunter3")), (Ok(true), Ok(false)), "{kind:?}");
        assert_ne!(PasswordHash::create(kind, b"hunter2").unwrap(), hash);
    }
}

#[test]
fn argon2id_is_written_with_the_parameters_that_are_documented() {
    let text = PasswordHash::create(HashKind::Argon2id, b"x").unwrap().to_string();
    assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
}

#[test]
fn costs_beyond_reason_are_refused_instead_of_worked_out() {
    let salt_and_hash = "MDEyMzQ1Njc4OWFiY2RlZg$Er+ZMe2+i18qpRkpH82Qlgx2u2bmplL0BsCqjIBBJ3Y";
    for costs in ["m=99999999,t=2,p=1", "m=1024,t=0,p=1", "m=1024,t=2,p=99", "m=1,t=1,p=16", "t=2,m=1024,p=1"] {
        let text = format!("$argon2id$v=19${costs}${salt_and_hash}");
        assert_eq!(PasswordHash::parse(&text).err(), Some(HashError::Cost), "{costs}");
    }
    let kind = HashKind::Pbkdf2Sha512 { rounds: 10_000_001 };
    assert_eq!(PasswordHash::create(kind, b"x").err(), Some(HashError::Cost));
    let kind = HashKind::ScramSha256 { rounds: 4095 };
    assert_eq!(PasswordHash::create(kind, b"x").err(), Some(HashError::Cost));
}

#[test]
fn invalid_hashes_are_refused_with_the_fault() {
    let long = "A".repeat(400);
    for (text, problem) in [
        ("plain", HashError::Plain),
        ("", HashError::Plain),
        ("$5$x$y", HashError::UnknownKind),
        ("$6", HashError::UnknownKind),
        ("$6$abcd", HashError::Parts),
        ("$6$MDEy$not base64", HashError::Encoding),
        ("$6$MDEy$MDEy", HashError::Length),
        ("$7$0$MDEy$MDEy", HashError::Cost),
        ("$7$-1$MDEy$MDEy", HashError::Cost),
        (&format!("$7$1${long}$MDEy"), HashError::Length),
        ("$scram-sha-256$4096$MDEy$MDEy$MDEy", HashError::Length),
    ] {
        assert_eq!(PasswordHash::parse(text).err(), Some(problem), "{text}");
    }
}

#[test]
fn no_debug_output_shows_a_hash() {
    let hash = PasswordHash::parse(RECORDED[3].1).unwrap();
    assert_eq!(format!("{hash:?}"), "PasswordHash($argon2id$)");
}

#[test]
fn a_file_names_the_line_that_is_wrong() {
    let good = format!("# people\n\nalice:{}\n", RECORDED[0].1);
    assert_eq!(parse_text(&good).unwrap().users().count(), 1);
    for (line, problem) in [
        ("bob", LineError::NoColon),
        (":x", LineError::Name(UserNameError::Empty)),
        ("bob:plain", LineError::Hash(HashError::Plain)),
        (&format!("alice:{}", RECORDED[1].1), LineError::Again(3)),
    ] {
        assert_eq!(parse_text(&format!("{good}{line}\n")).err(), Some((4, problem)));
    }
}

#[test]
fn a_byte_order_mark_before_the_file_belongs_to_no_name() {
    let scratch = Scratch::new();
    let file = scratch.write("users", format!("\u{feff}alice:{}\r\n", RECORDED[0].1));
    let names: Vec<_> = UserFile::load(&file).unwrap().users().map(|(name, _)| name.as_str().to_owned()).collect();
    assert_eq!(names, ["alice"]);
}

#[test]
fn an_error_about_a_line_does_not_repeat_the_line() {
    let scratch = Scratch::new();
    let file = scratch.write("users", "alice:hunter2\n");
    let error = UserFile::load(&file).unwrap_err().to_string();
    assert!(error.contains("users:1: the password is not hashed") && !error.contains("hunter2"), "{error}");
}

#[test]
fn comments_and_order_stay_when_a_user_changes() {
    let mut file = parse_text(&format!("# first\na:{0}\n\nb:{0}\n", cheap("x"))).unwrap();
    let new = cheap("y");
    file.set(name("a"), new.clone());
    file.set(name("c"), new.clone());
    assert!(file.remove(&name("b")) && !file.remove(&name("b")));
    assert_eq!(file.to_string(), format!("# first\na:{new}\n\nc:{new}\n"));
}

#[test]
fn a_user_may_have_keys_for_scram_beside_a_password() {
    let mut file = UserFile::default();
    let scram = PasswordHash::create(HashKind::ScramSha256 { rounds: 4096 }, b"x").unwrap();
    file.set(name("a"), cheap("x"));
    file.set(name("a"), scram);
    assert_eq!(file.users().count(), 2);
    file.set(name("a"), cheap("y"));
    assert_eq!(parse_text(&file.to_string()).unwrap().users().count(), 2);
    assert!(file.remove(&name("a")));
    assert_eq!(file.users().count(), 0);
}

#[test]
fn a_new_file_is_private_and_an_old_one_keeps_mode_and_link() {
    let scratch = Scratch::new();
    let (file, link) = (scratch.path("users"), scratch.path("link"));
    let mut users = UserFile::default();
    users.set(name("a"), cheap("x"));
    users.save(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    assert!(!UserFile::load(&file).unwrap().is_exposed());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut users = UserFile::load(&link).unwrap();
    assert!(users.is_exposed() && !users.is_open());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o620)).unwrap();
    assert!(UserFile::load(&link).unwrap().is_open());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    users.set(name("b"), cheap("y"));
    users.save(&link).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(UserFile::load(&file).unwrap().users().count(), 2);
    let left = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2, "nothing else is left in the folder");
}

#[test]
fn plain_passwords_are_upgraded_and_hashes_stay() {
    let scratch = Scratch::new();
    let text = format!("# plain:text\nalice:hunter2\nbob:{}\ncarol:a:b\n", RECORDED[0].1);
    let file = scratch.write("users", text);
    let kind = HashKind::Pbkdf2Sha512 { rounds: 1 };
    let (users, upgraded) = UserFile::load_and_upgrade(&file, kind).unwrap();
    assert_eq!(upgraded, 2);
    let found: Vec<_> = users.users().collect();
    assert_eq!(found[0].1.verify(b"hunter2"), Ok(true));
    assert_eq!(found[1].1.verify(b"secret one"), Ok(true));
    assert_eq!(found[2].1.verify(b"a:b"), Ok(true));
    assert!(users.to_string().starts_with("# plain:text\n"));
}

/// A stolen hash must not become a password.
#[test]
fn hashes_of_other_tools_are_named_and_never_hashed() {
    let scratch = Scratch::new();
    for foreign in [
        "PBKDF2$sha512$100000$c2FsdA==$aGFzaA==",
        "pbkdf2_sha256$260000$salt$aGFzaA==",
        "pbkdf2:sha256:260000$salt$0123abcd",
        "scrypt:32768:8:1$salt$0123abcd",
        "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy",
        "bcrypt_sha256$$2b$12$abcdefghijklmnopqrstuv",
        "argon2$argon2id$v=19$m=102400,t=2,p=8$c2FsdA$aGFzaA",
        "sha1$salt$2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "{SSHA}c2FsdGVkaGFzaA==",
        "5f4dcc3b5aa765d61d8327deb882cf99",
        "$2y$10$abcdefghijklmnopqrstuv",
        "$argon2i$v=19$m=16,t=2,p=1$c2FsdA$aGFzaA",
        "$apr1$salt$hash",
    ] {
        let error = PasswordHash::parse(foreign).unwrap_err();
        assert!(matches!(error, HashError::Foreign(_) | HashError::UnknownKind), "{foreign}: {error:?}");
        let file = scratch.write("users", format!("alice:hunter2\nx:{foreign}\n"));
        let error = UserFile::load_and_upgrade(&file, HashKind::default()).unwrap_err().to_string();
        let is_named = error.contains("unsupported hash (") || error.contains("unknown kind of hash");
        assert!(error.contains("users:2: ") && is_named && !error.contains(foreign), "{error}");
    }
    for password in ["pa$$word", "sha256", "a:b$c", "{x", "{}", "md5:x", "hunter2", "me$too$x"] {
        assert_eq!(PasswordHash::parse(password), Err(HashError::Plain), "{password}");
    }
}

#[test]
fn names_that_would_break_a_file_are_refused() {
    for wrong in ["", "a:b", "a\nb", "#a", " a", "a ", "a\u{7f}"] {
        assert!(UserName::new(wrong).is_err(), "{wrong:?}");
    }
    assert!(UserName::new("Ünal + Söhne/7").is_ok());
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader_of_hashes(text in "\\$?(6|7|argon2id|scram-sha-256|digest-sha256-prefix)?\\$[ -~]{0,80}") {
        if let Ok(hash) = PasswordHash::parse(&text) {
            prop_assert_eq!(PasswordHash::parse(&hash.to_string()).ok(), Some(hash));
        }
    }

    #[test]
    fn no_text_breaks_the_reader_of_files(text in "\\PC*([\\n:#$]\\PC*){0,8}") {
        if let Ok(file) = parse_text(&text) {
            prop_assert_eq!(parse_text(&file.to_string()).map(|file| file.users().count()).ok(), Some(file.users().count()));
        }
    }
}
