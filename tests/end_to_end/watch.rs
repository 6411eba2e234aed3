//! `toller watch` with real processes and file system events.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toller_tests::PATIENCE;
use toller_tests::client::Client;
use toller_tests::command::{run, toller};
use toller_tests::server::{Server, Settings};

use crate::ingest::sources;

/// A `toller watch` that runs; killed when it is dropped.
struct Watching {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    reading: JoinHandle<()>,
}

impl Watching {
    /// Starts `toller watch ARGUMENTS` in a folder.
    fn start(url: &str, folder: &Path, arguments: &[&str]) -> Self {
        let mut command = toller();
        command.arg("watch").args(arguments).args(["--debounce-ms", "100"]);
        command.env("TOLLER_SERVER", url).current_dir(folder).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let told = Arc::clone(&said);
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                told.lock().unwrap().push(line);
            }
        });
        Self { child, said, reading }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Waits until it said something.
    async fn until_said(&self, words: &str) {
        let give_up = Instant::now() + PATIENCE;
        while !self.said().contains(words) {
            assert!(Instant::now() < give_up, "{words:?} was not said:\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until these, and no other, sources are in the collection.
    async fn until_sources_are(&self, client: &Client, expected: &[&str]) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let found = sources(client).await;
            if found == expected {
                return;
            }
            assert!(Instant::now() < give_up, "{found:?} instead of {expected:?}:\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a text is found in the collection.
    async fn until_text_is_there(&self, client: &Client, text: &str) {
        let give_up = Instant::now() + PATIENCE;
        while !client.all("docs").await.iter().any(|document| document.page_content.contains(text)) {
            assert!(Instant::now() < give_up, "{text:?} did not come:\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for its end; gives the exit code.
    async fn ended(mut self) -> (Option<i32>, String) {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        // The last lines may still be in the pipe.
        tokio::time::timeout(PATIENCE, &mut self.reading).await.expect("its output ends").unwrap();
        (status.code(), self.said())
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().unwrap();
        assert!(
            std::process::Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().unwrap().success()
        );
    }
}

/// A server with the collection, and a folder `notes` with two files.
async fn start() -> (Server, Client, TempDir) {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("notes/below")).unwrap();
    fs::write(folder.path().join("notes/a.md"), "# A\n\nThe first note.\n").unwrap();
    fs::write(folder.path().join("notes/below/b.md"), "# B\n\nThe second note.\n").unwrap();
    (server, client, folder)
}

#[tokio::test]
async fn files_and_folders_are_followed() {
    let (server, client, folder) = start().await;
    let notes = folder.path().join("notes");
    let watching = Watching::start(&server.url(), folder.path(), &["notes"]);
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md"]).await;

    fs::write(notes.join("c.md"), "A third note.").unwrap();
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md", "notes/c.md"]).await;
    fs::write(notes.join("c.md"), "A third note, edited.").unwrap();
    watching.until_text_is_there(&client, "edited").await;
    assert_eq!(client.count("docs").await, 3, "the older version is gone");

    fs::rename(notes.join("c.md"), notes.join("d.md")).unwrap();
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md", "notes/d.md"]).await;
    fs::remove_file(notes.join("d.md")).unwrap();
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md"]).await;

    // Folders: new with files at once, renamed, moved out and removed.
    fs::create_dir_all(notes.join("new/deep")).unwrap();
    fs::write(notes.join("new/deep/e.md"), "Deep.").unwrap();
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md", "notes/new/deep/e.md"]).await;
    fs::rename(notes.join("new"), notes.join("renamed")).unwrap();
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md", "notes/renamed/deep/e.md"]).await;
    fs::write(notes.join("renamed/deep/f.md"), "Deeper.").unwrap();
    let expected = ["notes/a.md", "notes/below/b.md", "notes/renamed/deep/e.md", "notes/renamed/deep/f.md"];
    watching.until_sources_are(&client, &expected).await;
    fs::rename(notes.join("renamed"), folder.path().join("elsewhere")).unwrap();
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md"]).await;
    fs::remove_dir_all(notes.join("below")).unwrap();
    watching.until_sources_are(&client, &["notes/a.md"]).await;

    watching.signal("TERM");
    let (code, said) = watching.ended().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopped by SIGTERM"), "{said}");
}

#[tokio::test]
async fn what_changed_while_nobody_watched_is_caught_up() {
    let (server, client, folder) = start().await;
    let notes = folder.path().join("notes");
    run(toller().args(["ingest", "notes"]).env("TOLLER_SERVER", server.url()).current_dir(folder.path()))
        .await
        .expect(0);
    // Not below the watched path, and not from a file at all.
    fs::write(folder.path().join("other.md"), "Another.").unwrap();
    run(toller().args(["ingest", "other.md"]).env("TOLLER_SERVER", server.url()).current_dir(folder.path()))
        .await
        .expect(0);
    fs::remove_file(folder.path().join("other.md")).unwrap();
    fs::remove_file(notes.join("a.md")).unwrap();
    fs::write(notes.join("new.md"), "New.").unwrap();
    let watching = Watching::start(&server.url(), folder.path(), &["notes"]);
    watching.until_sources_are(&client, &["notes/below/b.md", "notes/new.md", "other.md"]).await;
    watching.until_said("2 files (1 added, 1 unchanged)").await;
}

#[tokio::test]
async fn a_burst_of_changes_ends_in_one_state() {
    let (server, client, folder) = start().await;
    let notes = folder.path().join("notes");
    let watching = Watching::start(&server.url(), folder.path(), &["notes"]);
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md"]).await;
    for round in 0..20 {
        for number in 0..20 {
            fs::write(notes.join(format!("{number}.md")), format!("Round {round} of {number}.")).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for number in 10..20 {
        fs::remove_file(notes.join(format!("{number}.md"))).unwrap();
    }
    let mut expected: Vec<String> = (0..10).map(|number| format!("notes/{number}.md")).collect();
    expected.extend(["notes/a.md".to_owned(), "notes/below/b.md".to_owned()]);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    watching.until_sources_are(&client, &expected).await;
    for number in 0..10 {
        watching.until_text_is_there(&client, &format!("Round 19 of {number}.")).await;
    }
    assert_eq!(client.count("docs").await, 12);
}

#[tokio::test]
async fn a_server_that_goes_away_is_waited_for() {
    let settings = Settings::new().on_disk();
    let server = settings.start().await;
    let address = server.address.to_string();
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join("a.md"), "One.").unwrap();
    let watching = Watching::start(&server.url(), folder.path(), &["notes"]);
    watching.until_said("1 file (1 added)").await;
    server.kill().await;
    fs::write(notes.join("b.md"), "Two.").unwrap();
    watching.until_said("a run failed and is tried again").await;
    let server = settings.set("server.listen", &address).start().await;
    watching.until_sources_are(&server.client().await, &["notes/a.md", "notes/b.md"]).await;
    watching.signal("INT");
    assert_eq!(watching.ended().await.0, Some(0));
}

#[tokio::test]
async fn a_watched_folder_that_disappears_ends_the_watch_and_removes_nothing() {
    let (server, client, folder) = start().await;
    let watching = Watching::start(&server.url(), folder.path(), &["notes"]);
    watching.until_sources_are(&client, &["notes/a.md", "notes/below/b.md"]).await;
    fs::rename(folder.path().join("notes"), folder.path().join("moved")).unwrap();
    let (code, said) = watching.ended().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("notes cannot be watched") && said.contains("stays"), "{said}");
    assert_eq!(sources(&client).await, ["notes/a.md", "notes/below/b.md"]);

    // What cannot be watched from the beginning, too; and wrong usage.
    let exit =
        run(toller().args(["watch", "notes"]).env("TOLLER_SERVER", server.url()).current_dir(folder.path())).await;
    assert!(exit.expect(1).stderr.contains("notes cannot be watched"));
    run(toller().args(["watch", "-"]).current_dir(folder.path())).await.expect(2);
    run(toller().args(["watch", "moved", "--debounce-ms", "0"]).current_dir(folder.path())).await.expect(2);
}
