//! Flags that say which files are taken.

use toller_ingest::{DEFAULT_MAX_FILE_BYTES, Loader, WalkOptions};

/// Which files are taken.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Choosing files")]
pub(crate) struct WalkFlags {
    /// Of folders take only files that this glob meets, as in .gitignore: '*.md' at any depth, '/drafts' at the top; repeatable
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Of folders leave out files and folders that this glob meets; repeatable
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Of folders take files and folders whose names begin with a dot, too
    #[arg(long)]
    hidden: bool,
    /// Of folders take also what .gitignore, .ignore, .tollerignore and .git/info/exclude leave out
    #[arg(long)]
    no_ignore: bool,
    /// Largest file, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_FILE_BYTES)]
    max_file_bytes: u64,
}

impl WalkFlags {
    /// What is taken of folders. `standard_input_name` is what standard input is known by.
    pub(crate) fn options(&self, standard_input_name: Option<&str>) -> WalkOptions {
        WalkOptions {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            hidden: self.hidden,
            no_ignore: self.no_ignore,
            standard_input_name: standard_input_name.map(str::to_owned),
        }
    }

    /// What reads files, up to their size.
    pub(crate) fn loader(&self) -> Loader {
        Loader::default().max_file_bytes(self.max_file_bytes)
    }
}
