#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A temporary directory for one test. It is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-books-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join(FILE)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const USERS: Payers = Payers::Users { unnamed: |_| None };

fn open(folder: &Folder) -> Books {
    Books::open(&folder.0, Payers::Tenants).unwrap()
}

fn used(tenant: &str, messages_in: u64) -> Vec<(String, Amounts)> {
    vec![(tenant.to_owned(), Amounts { messages_in, ..Amounts::default() })]
}

fn messages(books: &Books, tenant: &str) -> u64 {
    books.sum(0, u64::MAX).get(tenant).map_or(0, |amounts| amounts.messages_in)
}

#[test]
fn books_are_read_as_they_were_written() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.add(100, &used("a", 3)).unwrap();
    books.add(110, &used("a", 4)).unwrap();
    books.add(200, &used("b", 5)).unwrap();
    drop(books);
    let books = open(&folder);
    assert_eq!((messages(&books, "a"), messages(&books, "b")), (7, 5));
    assert_eq!(books.sum(60, 120).len(), 1);
}

#[test]
fn a_torn_record_is_cut_off_and_does_not_count() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.add(100, &used("a", 3)).unwrap();
    books.add(110, &used("a", 4)).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    for torn in whole.len() / 2 + 1..whole.len() {
        fs::write(folder.file(), &whole[..torn]).unwrap();
        let mut books = open(&folder);
        assert_eq!(messages(&books, "a"), 3);
        books.add(120, &used("a", 10)).unwrap();
        assert_eq!(messages(&open(&folder), "a"), 13, "cut at {torn}");
    }
}

#[test]
fn a_damaged_record_does_not_hide_the_others() {
    let folder = Folder::new();
    let mut books = open(&folder);
    for (time, count) in [(100, 1), (200, 2), (300, 4)] {
        books.add(time, &used("a", count)).unwrap();
    }
    let text = fs::read_to_string(folder.file()).unwrap();
    fs::write(folder.file(), text.replace(" 2 0", " 9 0")).unwrap();
    assert_eq!(messages(&open(&folder), "a"), 5);
}

#[test]
fn merging_makes_the_file_short_and_changes_no_sum() {
    let folder = Folder::new();
    let mut books = open(&folder);
    let some: Vec<(String, Amounts)> = (0..100).flat_map(|tenant| used(&format!("tenant-{tenant}"), 1)).collect();
    let mut longest = 0;
    for second in 0..600 {
        books.add(second, &some).unwrap();
        longest = longest.max(fs::metadata(folder.file()).unwrap().len());
    }
    assert!(longest < MERGE_AFTER * 3 / 2, "{longest}");
    let again = open(&folder);
    for books in [&books, &again] {
        assert_eq!(books.sum(0, 600).values().map(|amounts| amounts.messages_in).sum::<u64>(), 60_000);
    }
}

#[test]
fn usage_that_cannot_be_written_does_not_count() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.add(100, &used("a", 3)).unwrap();
    // A file that is open for reading takes no record.
    let writable = std::mem::replace(&mut books.file.as_mut().unwrap().file, File::open(folder.file()).unwrap());
    books.add(110, &used("a", 4)).unwrap_err();
    assert_eq!(messages(&books, "a"), 3);
    books.file.as_mut().unwrap().file = writable;
    books.add(120, &used("a", 4)).unwrap();
    assert_eq!((messages(&books, "a"), messages(&open(&folder), "a")), (7, 7));
}

#[test]
fn books_of_users_are_a_file_of_their_own_by_the_hour() {
    let folder = Folder::new();
    let mut tenants = open(&folder);
    let mut users = Books::open(&folder.0, USERS).unwrap();
    tenants.add(3700, &used("a", 3)).unwrap();
    users.add(3700, &used(r#"["a","b c"]"#, 2)).unwrap();
    let users = Books::open(&folder.0, USERS).unwrap();
    assert_eq!((messages(&open(&folder), "a"), messages(&users, r#"["a","b c"]"#)), (3, 2));
    assert!(users.sum(3601, 4000).is_empty() && users.sum(3600, 3601).len() == 1);
}

fn counted(tenant: &str, messages_in: u64) -> BTreeMap<String, Counted> {
    BTreeMap::from([(tenant.to_owned(), Counted { messages_in, ..Counted::default() })])
}

#[test]
fn usage_that_only_the_store_has_is_added_once() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.add(100, &used("a", 1)).unwrap();
    books.begin_run(5).unwrap();
    books.add(110, &used("a", 10)).unwrap();
    // The process dies; the store has two messages more than the books, and the usage of a run without an entry.
    for _ in 0..2 {
        let mut books = open(&folder);
        books.settle(4, 170, &counted("a", 1000)).unwrap();
        books.settle(5, 170, &counted("a", 12)).unwrap();
        assert_eq!((messages(&books, "a"), books.sum(120, 180)["a"].messages_in), (13, 2));
    }
    for _ in 0..2 {
        let mut books = open(&folder);
        books.settle(5, 170, &counted("a", 12)).unwrap();
        books.settle(6, 180, &counted("a", 100)).unwrap();
        assert_eq!(messages(&books, "a"), 113);
    }
    let mut books = open(&folder);
    books.begin_run(7).unwrap();
    books.settle(5, 170, &counted("a", 12)).unwrap();
    books.settle(6, 180, &counted("a", 100)).unwrap();
    assert_eq!(messages(&books, "a"), 113);
}

#[test]
fn a_merged_file_still_has_the_usage_of_its_run() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.add(0, &used("a", 1)).unwrap();
    books.begin_run(5).unwrap();
    books.add(60, &used("a", 10)).unwrap();
    books.file.as_mut().unwrap().merge_at = 0;
    books.add(120, &used("a", 10)).unwrap();
    books.add(180, &used("a", 10)).unwrap();
    let mut books = open(&folder);
    books.settle(5, 200, &counted("a", 31)).unwrap();
    assert_eq!(messages(&books, "a"), 32);
}

#[test]
fn a_torn_settlement_is_completed_by_the_next() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.begin_run(5).unwrap();
    let mut left = counted("a", 3);
    left.extend(counted("b", 4));
    books.settle(5, 100, &left).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    let run = Line::Run(5).text().len();
    for torn in run..whole.len() {
        fs::write(folder.file(), &whole[..torn]).unwrap();
        let mut books = open(&folder);
        books.settle(5, 100, &left).unwrap();
        assert_eq!((messages(&books, "a"), messages(&open(&folder), "b")), (3, 4), "cut at {torn}");
    }
}

#[test]
fn a_run_with_a_number_that_was_used_counts_from_zero() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.begin_run(9).unwrap();
    books.add(100, &used("a", 10)).unwrap();
    // The clock is set back, and the store has nothing of the run before.
    for number in [5, 5] {
        let mut books = open(&folder);
        books.begin_run(number).unwrap();
        books.add(110, &used("a", 1)).unwrap();
    }
    let mut books = open(&folder);
    books.settle(5, 120, &counted("a", 3)).unwrap();
    assert_eq!(messages(&books, "a"), 14);
}

#[test]
fn usage_whose_run_the_books_may_have_lost_is_not_added() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.begin_run(5).unwrap();
    books.add(100, &used("a", 10)).unwrap();
    let text = fs::read_to_string(folder.file()).unwrap();
    let (run, records) = text.split_at(Line::Run(5).text().len());
    // An earlier version leaves out lines that it does not know when it merges records; another line is damaged.
    for rest in [records.to_owned(), format!("{}{records}", run.replace(" 5", " 6"))] {
        assert_ne!(rest, text);
        fs::write(folder.file(), rest).unwrap();
        let mut books = open(&folder);
        books.settle(5, 120, &counted("a", 12)).unwrap();
        books.begin_run(7).unwrap();
        assert_eq!(messages(&books, "a"), 10);
        books.settle(7, 130, &counted("a", 4)).unwrap();
        assert_eq!(messages(&open(&folder), "a"), 14);
    }
}

#[test]
fn a_settlement_with_a_wrong_clock_forgets_no_period() {
    let folder = Folder::new();
    let mut books = open(&folder);
    books.add(100, &used("a", 1)).unwrap();
    books.begin_run(5).unwrap();
    books.file.as_mut().unwrap().merge_at = 0;
    books.settle(6, 10_000_000_000, &counted("a", 2)).unwrap();
    assert_eq!((messages(&books, "a"), books.sum(0, 200).len()), (3, 1));
}

#[test]
fn books_of_users_begin_without_the_usage_of_earlier_runs() {
    let folder = Folder::new();
    let mut users = Books::open(&folder.0, USERS).unwrap();
    users.settle(5, 100, &counted("a", 3)).unwrap();
    users.begin_run(6).unwrap();
    let mut users = Books::open(&folder.0, USERS).unwrap();
    users.settle(6, 110, &counted("a", 4)).unwrap();
    assert_eq!(messages(&users, "a"), 4);
}

#[test]
fn books_of_users_leave_out_runs_that_do_not_count_users() {
    let folder = Folder::new();
    let open = || Books::open(&folder.0, USERS).unwrap();
    let mut users = open();
    users.begin_run(5).unwrap();
    users.add(100, &used("a", 2)).unwrap();
    // The next run does not count users, and has the rest of the one before.
    let mut users = open();
    users.settle(5, 110, &counted("a", 3)).unwrap();
    users.pause().unwrap();
    let written = fs::read(folder.0.join(USERS_FILE)).unwrap();
    assert!(written.ends_with(b" run 0\n"), "earlier versions read this line as that of any run");
    open().pause().unwrap();
    assert_eq!(fs::read(folder.0.join(USERS_FILE)).unwrap(), written, "once");
    let mut users = open();
    users.settle(5, 110, &counted("a", 3)).unwrap();
    users.settle(6, 120, &counted("", 40)).unwrap();
    users.begin_run(7).unwrap();
    let mut users = open();
    users.settle(7, 130, &counted("a", 4)).unwrap();
    assert_eq!((messages(&users, "a"), messages(&users, "")), (7, 0));
}
