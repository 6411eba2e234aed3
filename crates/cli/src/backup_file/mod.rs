//! The file of a backup: a line with the number of its format, and then one zstd stream, with its checksum, of the items of
//! `toller.v1.Backups`, each after its length as protobuf writes messages one after another.

mod reader;
mod summary;
mod writer;

pub(crate) use reader::{BackupReader, check};
pub(crate) use summary::Summary;
pub(crate) use writer::BackupWriter;

/// How the first line begins.
const MAGIC: &str = "toller backup ";

/// Number of the format.
const FORMAT: u32 = 1;

/// Adds an item to the counts.
pub(crate) fn count(counts: &mut toller_api::v1::BackupCounts, item: &toller_api::v1::BackupItem) {
    use toller_api::v1::backup_item::Item;

    match &item.item {
        Some(Item::Collection(_)) => counts.collections += 1,
        Some(Item::Document(_)) => counts.documents += 1,
        Some(Item::DocumentStore(_)) => counts.document_stores += 1,
        Some(Item::StoredDocument(_)) => counts.stored_documents += 1,
        Some(Item::Retriever(_)) => counts.retrievers += 1,
        Some(Item::Header(_) | Item::End(_)) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use toller_api::v1;
    use toller_api::v1::backup_item::Item;

    use super::*;

    fn items(documents: usize) -> Vec<v1::BackupItem> {
        let document = |number: usize| {
            Item::Document(v1::Document {
                page_content: format!("text {number} {}", number * 7919),
                ..Default::default()
            })
        };
        let counts = v1::BackupCounts { collections: 1, documents: documents as u64, ..Default::default() };
        let mut items = vec![Item::Header(v1::BackupHeader { format: 1, ..Default::default() })];
        items.push(Item::Collection(v1::Collection::default()));
        items.extend((0..documents).map(document));
        items.push(Item::End(v1::BackupEnd { counts: Some(counts) }));
        items.into_iter().map(|item| v1::BackupItem { item: Some(item) }).collect()
    }

    fn write(path: &Path, items: &[v1::BackupItem]) {
        let mut writer = BackupWriter::create(path, false).unwrap();
        for item in items {
            writer.write(item).unwrap();
        }
        writer.finish().unwrap();
    }

    fn read(path: &Path) -> Vec<v1::BackupItem> {
        let mut reader = BackupReader::open(path, &indicatif::ProgressBar::hidden()).unwrap();
        let mut items = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            items.push(item);
        }
        items
    }

    fn said(path: &Path) -> String {
        check(path, &indicatif::ProgressBar::hidden()).unwrap_err().to_string()
    }

    #[test]
    fn items_survive_the_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let written = items(300);
        write(&path, &written);
        let counts = check(&path, &indicatif::ProgressBar::hidden()).unwrap();
        assert_eq!((counts.collections, counts.documents), (1, 300));
        assert_eq!(read(&path), written);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_what_is_no_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        BackupWriter::create(&link, true).unwrap().finish().unwrap();
        assert!(link.is_symlink());
        assert_ne!(std::fs::read(&real).unwrap(), b"old");
        let refused = BackupWriter::create(folder.path(), true).err().unwrap().to_string();
        assert!(refused.contains("is no file"), "{refused}");
    }

    #[test]
    fn a_file_that_is_there_stays_unless_it_is_forced_and_an_unfinished_one_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        fs::write(&path, "precious").unwrap();
        let Err(refused) = BackupWriter::create(&path, false) else { panic!("it is overwritten") };
        assert!(refused.to_string().contains("--force"), "{refused}");
        let mut writer = BackupWriter::create(&path, true).unwrap();
        writer.write(&items(0)[0]).unwrap();
        drop(writer);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut writer = BackupWriter::create(&path, true).unwrap();
        for item in items(1) {
            writer.write(&item).unwrap();
        }
        writer.finish().unwrap();
        assert!(check(&path, &indicatif::ProgressBar::hidden()).is_ok());
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        write(&path, &items(20));
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let said = said(&path);
            assert!(said.contains(&*path.to_string_lossy()), "{length}: {said}");
        }
        let mut harmless = 0;
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            // Some bits of the stream's own header say how to unpack it and not what is in it.
            if check(&path, &indicatif::ProgressBar::hidden()).is_ok() {
                assert_eq!(read(&path), items(20), "the byte {index} of {} is another one", whole.len());
                harmless += 1;
            }
        }
        assert!(harmless <= 4, "{harmless} bytes could be others");
    }

    #[test]
    fn the_fault_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        fs::write(&path, "{\"not\": \"a backup, and long enough\"}").unwrap();
        assert!(said(&path).contains("is no backup of Toller"), "{}", said(&path));
        fs::write(&path, "toller backup 2\nwhatever").unwrap();
        assert!(said(&path).contains("format 2, this version reads 1"), "{}", said(&path));
        fs::remove_file(&path).unwrap();
        assert!(said(&path).contains("cannot read"), "{}", said(&path));

        let all = items(3);
        write(&path, &all[..all.len() - 1]);
        assert!(said(&path).contains("has no end"), "{}", said(&path));
        let without_one: Vec<_> =
            all.iter().enumerate().filter(|(at, _)| *at != 2).map(|(_, item)| item.clone()).collect();
        fs::remove_file(&path).unwrap();
        write(&path, &without_one);
        assert!(said(&path).contains("counts do not agree"), "{}", said(&path));
        let and_more: Vec<_> = all.iter().chain(&all[2..3]).cloned().collect();
        fs::remove_file(&path).unwrap();
        write(&path, &and_more);
        assert!(said(&path).contains("goes on after its end"), "{}", said(&path));
    }
}
