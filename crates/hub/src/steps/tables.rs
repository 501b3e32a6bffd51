//! Tables of a pipeline: rows of a file, found by a key. `lookup` of SQL and CEL reads them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::error::ComputeError;
use super::values::{count, text_of};

/// Largest file of a table, bytes; a larger one is refused.
const MAX_TABLE_BYTES: u64 = 16 << 20;
/// Most rows of a table; a file with more is refused.
const MAX_ROWS: usize = 100_000;
/// Most values of all rows of a table, also empty ones and those within lists and objects: each takes memory beside its
/// bytes. A file with more is refused.
const MAX_VALUES: usize = 1_000_000;
/// Most tables of a pipeline.
const MAX_TABLES: usize = 16;
/// Time between two looks at whether the file has changed, milliseconds.
const LOOK_EVERY: u64 = 1_000;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableError {
    /// The text of a table has another form.
    #[error("`{0}` must be `NAME = FILE#KEY`, such as `pumps = pumps.csv#id`")]
    Form(String),
    /// Two tables have one name.
    #[error("two tables have the name `{0}`")]
    Twice(String),
    /// There are too many.
    #[error("a pipeline has at most {MAX_TABLES} tables")]
    TooMany,
    /// An expression names a table that is not there.
    #[error("there is no table `{0}`: add `{0} = FILE#KEY` to `tables`")]
    Unknown(String),
    /// The file cannot be read as a table.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: FileError,
    },
}

/// Why a file is no table.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is no file")]
    NoFile,
    #[error("it is larger than {MAX_TABLE_BYTES} bytes")]
    TooLarge,
    #[error("it has more than {MAX_ROWS} rows")]
    TooManyRows,
    #[error("its rows have more than {MAX_VALUES} values")]
    TooManyValues,
    #[error("its name has to end in .csv, .ndjson or .jsonl")]
    Kind,
    #[error("it is no CSV: {0}")]
    Csv(#[from] csv::Error),
    #[error("line {0} is no object of JSON")]
    Line(usize),
    #[error("it has no column `{0}`")]
    NoColumn(String),
    #[error("row {row} has no `{key}`")]
    NoKey { row: usize, key: String },
    #[error("row {row} has the key `{key}` of an earlier row")]
    KeyTwice { row: usize, key: String },
}

/// The rows by their keys, each an object.
type Rows = HashMap<String, Value>;

/// Rows that are read, and how many values they have.
#[derive(Default)]
struct Filling {
    rows: Rows,
    values: usize,
}

/// The version of a file.
type Version = (Option<SystemTime>, u64);

/// A table of a file, which is read again when the file has changed.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    path: PathBuf,
    key: String,
    /// Whether a missing key is an error, and not null.
    demands: bool,
    state: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    rows: Rows,
    /// The version that was read last; it gave these rows, or was no table.
    version: Version,
    /// Why the file was not read at the last look. It is reported once.
    failure: Option<String>,
    /// When the file was looked at last, Unix milliseconds.
    looked: u64,
}

impl Table {
    fn open(text: &str, demands: bool) -> Result<Self, TableError> {
        let form = || TableError::Form(text.to_owned());
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        let (path, key) = rest.rsplit_once('#').ok_or_else(form)?;
        let (name, path, key) = (name.trim().to_owned(), PathBuf::from(path.trim()), key.trim().to_owned());
        if name.is_empty() || path.as_os_str().is_empty() || key.is_empty() {
            return Err(form());
        }
        match read(&path, &key) {
            Ok((rows, version)) => {
                let state = Mutex::new(Loaded { rows, version, failure: None, looked: 0 });
                Ok(Self { name, path, key, demands, state })
            }
            Err(why) => Err(TableError::File { path, why }),
        }
    }

    /// The row of a key, or one of its fields. Null is no key. `now` is in Unix milliseconds.
    ///
    /// # Errors
    /// Without such a row, where the table demands one.
    pub(super) fn find(&self, key: &Value, field: Option<&str>, now: u64) -> Result<Value, ComputeError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.abs_diff(state.looked) >= LOOK_EVERY {
            self.look(&mut state, now);
        }
        let row = if key.is_null() { None } else { state.rows.get(text_of(key).as_str()) };
        match (row, field) {
            (Some(row), Some(field)) => Ok(row.get(field).cloned().unwrap_or_default()),
            (Some(row), None) => Ok(row.clone()),
            (None, _) if self.demands => {
                let key = key.to_string().chars().take(80).collect();
                Err(ComputeError::NoRow { table: self.name.clone(), key })
            }
            (None, _) => Ok(Value::Null),
        }
    }

    /// Reads the file again if it has changed. The rows of the last good version stay while it cannot be read.
    fn look(&self, state: &mut Loaded, now: u64) {
        state.looked = now;
        let version = version_of(&self.path);
        if version.as_ref().ok() == Some(&state.version) {
            state.failure = None;
            return;
        }
        let error = match read(&self.path, &self.key) {
            Ok((rows, version)) => {
                tracing::info!(table = self.name, rows = rows.len(), "the table was read again");
                (state.rows, state.version, state.failure) = (rows, version, None);
                return;
            }
            Err(error) => error,
        };
        let failure = Some(error.to_string());
        if state.failure != failure {
            let path = self.path.display();
            tracing::warn!(table = self.name, %path, %error, "the table has changed and cannot be read; its last rows stay");
        }
        // The same content has the same error. A file that cannot be opened is tried again.
        match (error, version) {
            (FileError::Io(_) | FileError::NoFile, _) | (_, Err(_)) => state.failure = failure,
            (_, Ok(version)) => (state.version, state.failure) = (version, None),
        }
    }
}

fn version_of(path: &Path) -> io::Result<Version> {
    let found = path.metadata()?;
    Ok((found.modified().ok(), found.len()))
}

fn read(path: &Path, key: &str) -> Result<(Rows, Version), FileError> {
    // A pipe would be waited for.
    if !path.metadata()?.is_file() {
        return Err(FileError::NoFile);
    }
    // Before the text: a change behind it is then seen at the next look.
    let version = version_of(path)?;
    let mut text = Vec::new();
    File::open(path)?.take(MAX_TABLE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_TABLE_BYTES {
        return Err(FileError::TooLarge);
    }
    let rows = match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => of_csv(&text, key)?,
        Some("ndjson" | "jsonl") => of_lines(&text, key)?,
        _ => return Err(FileError::Kind),
    };
    Ok((rows, version))
}

fn of_csv(text: &[u8], key: &str) -> Result<Rows, FileError> {
    // A spreadsheet marks UTF-8 so.
    let mut reader = csv::Reader::from_reader(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    let names = reader.headers()?.clone();
    let Some(at) = names.iter().position(|name| name == key) else {
        return Err(FileError::NoColumn(key.to_owned()));
    };
    let mut filling = Filling::default();
    for (number, record) in (1..).zip(reader.records()) {
        let record = record?;
        let fields = names.iter().zip(&record).map(|(name, field)| (name.to_owned(), value_of(field)));
        let row = Value::Object(fields.collect());
        filling.add(number, (key, record.get(at).unwrap_or_default().to_owned()), row)?;
    }
    Ok(filling.rows)
}

/// A field of CSV: a number or a truth value as JSON writes it, null for an empty one, else a text.
fn value_of(field: &str) -> Value {
    let is_plain = |value: &Value| value.is_number() || value.is_boolean();
    match serde_json::from_str(field) {
        Ok(value) if is_plain(&value) && field.trim() == field => value,
        _ if field.is_empty() => Value::Null,
        _ => Value::String(field.to_owned()),
    }
}

fn of_lines(text: &[u8], key: &str) -> Result<Rows, FileError> {
    let mut filling = Filling::default();
    let lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty());
    for (number, line) in lines {
        let row: Map<String, Value> = serde_json::from_slice(line).map_err(|_| FileError::Line(number))?;
        let found = row.get(key).map(text_of).unwrap_or_default();
        filling.add(number, (key, found), Value::Object(row))?;
    }
    Ok(filling.rows)
}

impl Filling {
    fn add(&mut self, row: usize, (name, key): (&str, String), value: Value) -> Result<(), FileError> {
        if key.is_empty() {
            return Err(FileError::NoKey { row, key: name.to_owned() });
        }
        if self.rows.len() == MAX_ROWS {
            return Err(FileError::TooManyRows);
        }
        self.values += count(&value);
        if self.values > MAX_VALUES {
            return Err(FileError::TooManyValues);
        }
        match self.rows.insert(key.clone(), value) {
            None => Ok(()),
            Some(_) => Err(FileError::KeyTwice { row, key }),
        }
    }
}

/// The tables of a pipeline, by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables(Arc<BTreeMap<String, Arc<Table>>>);

impl Tables {
    /// Reads tables, each written as `NAME = FILE#KEY`. `demands` makes a missing key an error.
    ///
    /// # Errors
    /// The number of the first text that is wrong, and why.
    pub(super) fn open(texts: &[String], demands: bool) -> Result<Self, TableError> {
        if texts.len() > MAX_TABLES {
            return Err(TableError::TooMany);
        }
        let mut tables = BTreeMap::new();
        for text in texts {
            let table = Table::open(text, demands)?;
            if let Some(other) = tables.insert(table.name.clone(), Arc::new(table)) {
                return Err(TableError::Twice(other.name.clone()));
            }
        }
        Ok(Self(Arc::new(tables)))
    }

    /// The tables of these names.
    ///
    /// # Errors
    /// The first name without a table.
    pub(super) fn only<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<Self, TableError> {
        let one = |name: &str| Ok((name.to_owned(), Arc::clone(self.get(name)?)));
        Ok(Self(Arc::new(names.map(one).collect::<Result<_, _>>()?)))
    }

    /// Whether it has no table.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table of a name.
    ///
    /// # Errors
    /// When there is no such table.
    pub(super) fn get(&self, name: &str) -> Result<&Arc<Table>, TableError> {
        self.0.get(name).ok_or_else(|| TableError::Unknown(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-table-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn rows_are_found_by_their_key() {
        let folder = folder("rows");
        let (csv, lines) = (folder.join("pumps.csv"), folder.join("pumps.jsonl"));
        std::fs::write(&csv, "\u{feff}id,site,limit,on\n7,\"Hall, \"\"A\"\"\",31.5,true\n007,,1e2,no\n").unwrap();
        std::fs::write(&lines, "{\"id\":7,\"at\":{\"x\":1}}\n\n{\"id\":\"b\"}\n").unwrap();
        let texts = [format!("pumps = {}#id", csv.display()), format!("more={}#id", lines.display())];
        let tables = Tables::open(&texts, false).unwrap();
        let find = |table: &str, key: Value, field| tables.get(table).unwrap().find(&key, field, 0).unwrap();
        let first = json!({ "id": 7, "site": "Hall, \"A\"", "limit": 31.5, "on": true });
        assert_eq!(find("pumps", json!(7), None), first);
        assert_eq!(find("pumps", json!("7"), Some("limit")), json!(31.5));
        assert_eq!(find("pumps", json!("007"), None), json!({ "id": "007", "site": null, "limit": 100.0, "on": "no" }));
        assert_eq!(find("more", json!(7), Some("at")), json!({ "x": 1 }));
        for key in [json!(8), json!(null), json!(""), json!([7])] {
            assert_eq!(find("pumps", key, Some("site")), Value::Null);
        }
        let demanding = Tables::open(&texts[..1], true).unwrap();
        let error = demanding.get("pumps").unwrap().find(&json!("x"), None, 0).unwrap_err();
        assert_eq!(error, ComputeError::NoRow { table: "pumps".into(), key: "\"x\"".into() });
        assert!(tables.get("other").unwrap_err().to_string().contains("no table `other`"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let folder = folder("wrong");
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            format!("t = {}#id", path.display())
        };
        let lines = |rows: usize, end: &str| {
            (0..rows).map(|row| format!("{row}{end}")).collect::<Vec<_>>().join(
                "
",
            )
        };
        let many = lines(MAX_ROWS + 1, "");
        let columns = |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
        let wide = lines(7_000, &",".repeat(160));
        for (text, said) in [
            ("t".to_owned(), "NAME = FILE#KEY"),
            ("t = a.csv".to_owned(), "NAME = FILE#KEY"),
            (" = a.csv#id".to_owned(), "NAME = FILE#KEY"),
            (format!("t = {}/no.csv#id", folder.display()), "No such file"),
            (format!("t = {}#id", folder.display()), "no file"),
            (file("a.txt", "id\n1\n"), "end in .csv"),
            (file("b.csv", "a,b\n1,2\n"), "no column `id`"),
            (file("c.csv", "id,b\n1\n"), "no CSV"),
            (file("d.csv", "id,b\n,2\n"), "row 1 has no `id`"),
            (file("e.csv", "id\n1\n2\n1\n"), "row 3 has the key `1`"),
            (file("f.csv", &format!("id\n{many}")), "more than 100000 rows"),
            (file("g.csv", &" ".repeat((16 << 20) + 1)), "larger than"),
            (file("k.csv", &format!("id,{}\n{}", columns(160), wide)), "more than 1000000 values"),
            (
                file("l.jsonl", &format!("{{\"id\":1,\"a\":[{}0]}}\n", "0,".repeat(MAX_VALUES))),
                "more than 1000000 values",
            ),
            (file("h.jsonl", "{\"id\":1}\n[]\n"), "line 2"),
            (file("i.jsonl", "{\"a\":1}\n"), "row 1 has no `id`"),
        ] {
            let error = Tables::open(std::slice::from_ref(&text), false).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let twice = file("j.csv", "id\n1\n");
        let error = Tables::open(&[twice.clone(), twice], false).unwrap_err().to_string();
        assert!(error.contains("two tables have the name `t`"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_version_that_cannot_be_opened_is_tried_again() {
        let folder = folder("retried");
        let path = folder.join("t.csv");
        std::fs::write(&path, "id,v\n1,a\n").unwrap();
        let tables = Tables::open(&[format!("t = {}#id", path.display())], false).unwrap();
        let table = tables.get("t").unwrap();
        let read_at = |now: u64| {
            table.find(&json!(1), None, now).unwrap();
            let state = table.state.lock().unwrap();
            (state.version, state.failure.is_some())
        };
        let first = read_at(10_000);
        assert!(!first.1);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(read_at(20_000), (first.0, true), "its version is not remembered, and its failure is reported once");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "id\n1\n1\n").unwrap();
        let wrong = read_at(30_000);
        assert_eq!((wrong.0 == first.0, wrong.1), (false, false), "the content is wrong: it is not read again");
        assert_eq!(table.find(&json!(1), Some("v"), 31_000).unwrap(), "a", "the last good version stays");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_changed_file_is_read_again_if_it_is_a_table() {
        let folder = folder("changed");
        let path = folder.join("t.csv");
        std::fs::write(&path, "id,v\n1,a\n").unwrap();
        let tables = Tables::open(&[format!("t = {}#id", path.display())], false).unwrap();
        let at = |now: u64| tables.get("t").unwrap().find(&json!(1), Some("v"), now).unwrap();
        assert_eq!(at(10_000), "a");
        std::fs::write(&path, "id,v\n1,bb\n").unwrap();
        assert_eq!(at(10_000 + LOOK_EVERY - 1), "a", "the file is checked once a second");
        assert_eq!(at(10_000 + LOOK_EVERY), "bb");
        std::fs::write(&path, "id\n1\n1\n").unwrap();
        assert_eq!(at(20_000), "bb", "the last good version stays");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(at(30_000), "bb");
        std::fs::write(&path, "id,v\n1,cccc\n").unwrap();
        assert_eq!(at(40_000), "cccc");
        // A clock that was set back.
        std::fs::write(&path, "id,v\n1,ddddd\n").unwrap();
        assert_eq!(at(5), "ddddd");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
