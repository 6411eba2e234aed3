//! End-to-end tests of Toller; see the files beside this folder.
