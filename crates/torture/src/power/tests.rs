use std::process::Stdio;

use super::*;
use crate::broker::Recipe;

/// Writes, syncs and renames in known ways, as its argument says, and ends.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
static void put(int fd, const char *text) { if (write(fd, text, strlen(text)) < 0) _exit(errno); }
int main(int argc, char **argv) {
    if (argc < 3 || chdir(argv[1]) != 0) return 9;
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    if (strcmp(argv[2], "faults") == 0) {
        int fd = open("f", O_CREAT | O_WRONLY, 0600), failed = 0;
        for (int i = 0; i < 200; i++) failed += write(fd, "0123456789", 10) != 10;
        for (int i = 0; i < 200; i++) failed += fsync(fd) != 0;
        return failed > 0 && failed < 400 ? 0 : 8;
    }
    int safe = open("safe", O_CREAT | O_RDWR, 0600);
    put(safe, "safe");
    fsync(safe);
    fsync(dir);
    put(safe, "+maybe");
    struct iovec parts[2] = {{"A", 1}, {"B", 1}};
    if (pwritev(safe, parts, 2, 20) != 2 || ftruncate(safe, 30) != 0) return 7;
    int next = open("next.tmp", O_CREAT | O_WRONLY | O_TRUNC, 0640);
    put(next, "next");
    fdatasync(next);
    rename("next.tmp", "next");
    fsync(dir);
    int nameless = open("nameless", O_CREAT | O_WRONLY, 0600);
    put(nameless, "x");
    fsync(nameless);
    unlink("old");
    mkdir("sub", 0700);
    int deep = openat(dir, "sub/deep", O_CREAT | O_WRONLY | O_APPEND, 0600);
    put(deep, "1"); put(deep, "2");
    FILE *stream = fopen("stream", "w");
    fputs("through stdio", stream); fflush(stream);
    fsync(fileno(stream));
    return 0;
}
"#;

struct Scene {
    folder: PathBuf,
    power: Power,
    program: PathBuf,
}

fn scene(name: &str) -> Scene {
    let folder = std::env::temp_dir().join(format!("tidegate-torture-test-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("old"), "old").unwrap();
    let power = Power::new(&folder, &data).unwrap();
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let built = Command::new("cc").arg("-o").args([&program, &source]).status().unwrap();
    assert!(built.success());
    Scene { folder, power, program }
}

impl Scene {
    fn run(&mut self, step: &str, faults: Option<&str>) -> u32 {
        self.power.prepare().unwrap();
        let mut command = Command::new(&self.program);
        command.arg(&self.power.data).arg(step).envs(self.power.environment(faults)).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        assert!(child.wait().unwrap().success(), "the program met something unexpected");
        pid
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read(self.power.data.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn synced_data_survives_and_other_data_may_not() {
    let mut scene = scene("power");
    let before = Snapshot::take(&scene.power.data).unwrap();
    let (mut kept_more, mut lost_names, mut kept_names) = (0, 0, 0);
    for seed in 0..120 {
        before.restore(&scene.power.data).unwrap();
        let pid = scene.run("write", None);
        let outage = scene.power.fail(pid, &mut Rng::new(seed)).unwrap();
        let safe = scene.text("safe").expect("its name was synced");
        assert!(safe.starts_with("safe"), "{outage:?}: {safe:?}");
        assert_eq!(scene.text("next").as_deref(), Some("next"), "renamed, with a synced folder");
        assert!(scene.text("next.tmp").is_none());
        if outage.style == "nothing that was not synced" {
            assert_eq!(safe, "safe");
            assert_eq!(scene.text("old").as_deref(), Some("old"), "the removal was not synced");
            assert!(scene.text("nameless").is_none(), "bytes were synced, the name was not");
            assert!(scene.text("sub/deep").is_none() && scene.text("stream").is_none());
        }
        if let Some(stream) = scene.text("stream") {
            assert_eq!(stream, "through stdio");
        }
        kept_more += usize::from(safe.len() > 4);
        lost_names += usize::from(scene.text("old").is_some());
        kept_names += usize::from(scene.text("sub/deep").as_deref() == Some("12"));
    }
    assert!(kept_more > 5 && lost_names > 5 && kept_names > 5, "{kept_more} {lost_names} {kept_names}");
}

#[test]
fn faults_come_as_asked_for() {
    let mut scene = scene("faults");
    scene.run("faults", Some("seed=5 write_eio=2000"));
    scene.run("faults", Some("seed=5 sync_eio=2000"));
    scene.run("faults", Some("seed=5 short=2000"));
    scene.run("faults", Some("seed=5 enospc_after=500 enospc_for=7"));
    assert!(scene.power.faults().unwrap() > 7, "each fault is counted");
    scene.run("write", Some("seed=5 enospc_after=500000 enospc_for=7"));
    assert_eq!(scene.power.faults().unwrap(), 0, "this one did not come");
    let pid = scene.run("write", None);
    assert!(
        scene.power.fail(pid + 1, &mut Rng::new(1)).is_err(),
        "a program that did not load the library is reported"
    );
}

#[test]
fn an_unknown_fault_ends_the_program() {
    let scene = scene("unknown");
    for (words, begins) in [("seed=1 wrte_eio=5", "wrte_eio"), ("short=", "short"), ("sync_eio=few", "sync_eio")] {
        let mut command = Command::new(&scene.program);
        command.arg(&scene.power.data).arg("faults").envs(scene.power.environment(Some(words)));
        let said = command.output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && text.contains(&format!("unknown fault: {begins}")), "{said:?}");
    }
}

#[test]
fn a_program_that_has_not_loaded_the_library_is_an_error() {
    let mut scene = scene("static");
    let recipe = |environment| Recipe { command: "sleep 60".to_owned(), port: 1, data: "/tmp".into(), environment };
    scene.power.prepare().unwrap();
    let mut seen = recipe(scene.power.environment(None)).start().unwrap();
    while scene.power.check(&mut seen).is_err() {
        std::thread::yield_now();
    }
    assert!(seen.is_alive());
    // As a static program, which does not look for libraries.
    let mut unseen = recipe(Vec::new()).start().unwrap();
    let said = scene.power.check(&mut unseen).unwrap_err().to_string();
    assert!(said.contains("static program"), "{said}");
}
