//! The separators of languages, coarse to fine, as LangChain has them (`get_separators_for_language` of langchain-text-splitters 1.1.3;
//! a test compares them with its own). They are in Python's dialect of regular expressions.

/// C++.
pub(crate) const CPP: &[&str] = &[
    "\nclass ",
    "\nvoid ",
    "\nint ",
    "\nfloat ",
    "\ndouble ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nswitch ",
    "\ncase ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Go.
pub(crate) const GO: &[&str] =
    &["\nfunc ", "\nvar ", "\nconst ", "\ntype ", "\nif ", "\nfor ", "\nswitch ", "\ncase ", "\n\n", "\n", " ", ""];
/// Java.
pub(crate) const JAVA: &[&str] = &[
    "\nclass ",
    "\npublic ",
    "\nprotected ",
    "\nprivate ",
    "\nstatic ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nswitch ",
    "\ncase ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Kotlin.
pub(crate) const KOTLIN: &[&str] = &[
    "\nclass ",
    "\npublic ",
    "\nprotected ",
    "\nprivate ",
    "\ninternal ",
    "\ncompanion ",
    "\nfun ",
    "\nval ",
    "\nvar ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nwhen ",
    "\nelse ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// JavaScript.
pub(crate) const JS: &[&str] = &[
    "\nfunction ",
    "\nconst ",
    "\nlet ",
    "\nvar ",
    "\nclass ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nswitch ",
    "\ncase ",
    "\ndefault ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// TypeScript.
pub(crate) const TS: &[&str] = &[
    "\nenum ",
    "\ninterface ",
    "\nnamespace ",
    "\ntype ",
    "\nclass ",
    "\nfunction ",
    "\nconst ",
    "\nlet ",
    "\nvar ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nswitch ",
    "\ncase ",
    "\ndefault ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// PHP.
pub(crate) const PHP: &[&str] = &[
    "\nfunction ",
    "\nclass ",
    "\nif ",
    "\nforeach ",
    "\nwhile ",
    "\ndo ",
    "\nswitch ",
    "\ncase ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Protocol Buffers.
pub(crate) const PROTO: &[&str] =
    &["\nmessage ", "\nservice ", "\nenum ", "\noption ", "\nimport ", "\nsyntax ", "\n\n", "\n", " ", ""];
/// Python.
pub(crate) const PYTHON: &[&str] = &["\nclass ", "\ndef ", "\n\tdef ", "\n\n", "\n", " ", ""];
/// R.
pub(crate) const R: &[&str] = &[
    "\nfunction ",
    "\nsetClass\\(",
    "\nsetMethod\\(",
    "\nsetGeneric\\(",
    "\nif ",
    "\nelse ",
    "\nfor ",
    "\nwhile ",
    "\nrepeat ",
    "\nlibrary\\(",
    "\nrequire\\(",
    "\n\n",
    "\n",
    " ",
    "",
];
/// reStructuredText.
pub(crate) const RST: &[&str] = &["\n=+\n", "\n-+\n", "\n\\*+\n", "\n\n.. *\n\n", "\n\n", "\n", " ", ""];
/// Ruby.
pub(crate) const RUBY: &[&str] = &[
    "\ndef ",
    "\nclass ",
    "\nif ",
    "\nunless ",
    "\nwhile ",
    "\nfor ",
    "\ndo ",
    "\nbegin ",
    "\nrescue ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Rust.
pub(crate) const RUST: &[&str] =
    &["\nfn ", "\nconst ", "\nlet ", "\nif ", "\nwhile ", "\nfor ", "\nloop ", "\nmatch ", "\n\n", "\n", " ", ""];
/// Scala.
pub(crate) const SCALA: &[&str] = &[
    "\nclass ",
    "\nobject ",
    "\ndef ",
    "\nval ",
    "\nvar ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nmatch ",
    "\ncase ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Swift.
pub(crate) const SWIFT: &[&str] = &[
    "\nfunc ",
    "\nclass ",
    "\nstruct ",
    "\nenum ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\ndo ",
    "\nswitch ",
    "\ncase ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Markdown.
pub(crate) const MARKDOWN: &[&str] =
    &["\n#{1,6} ", "```\n", "\n\\*\\*\\*+\n", "\n---+\n", "\n___+\n", "\n\n", "\n", " ", ""];
/// LaTeX.
pub(crate) const LATEX: &[&str] = &[
    "\n\\\\chapter{",
    "\n\\\\section{",
    "\n\\\\subsection{",
    "\n\\\\subsubsection{",
    "\n\\\\begin{enumerate}",
    "\n\\\\begin{itemize}",
    "\n\\\\begin{description}",
    "\n\\\\begin{list}",
    "\n\\\\begin{quote}",
    "\n\\\\begin{quotation}",
    "\n\\\\begin{verse}",
    "\n\\\\begin{verbatim}",
    "\n\\\\begin{align}",
    "$$",
    "$",
    " ",
    "",
];
/// HTML.
pub(crate) const HTML: &[&str] = &[
    "<body", "<div", "<p", "<br", "<li", "<h1", "<h2", "<h3", "<h4", "<h5", "<h6", "<span", "<table", "<tr", "<td",
    "<th", "<ul", "<ol", "<header", "<footer", "<nav", "<head", "<style", "<script", "<meta", "<title", "",
];
/// Solidity.
pub(crate) const SOL: &[&str] = &[
    "\npragma ",
    "\nusing ",
    "\ncontract ",
    "\ninterface ",
    "\nlibrary ",
    "\nconstructor ",
    "\ntype ",
    "\nfunction ",
    "\nevent ",
    "\nmodifier ",
    "\nerror ",
    "\nstruct ",
    "\nenum ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\ndo while ",
    "\nassembly ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// C#.
pub(crate) const CSHARP: &[&str] = &[
    "\ninterface ",
    "\nenum ",
    "\ndelegate ",
    "\nevent ",
    "\nclass ",
    "\nabstract ",
    "\npublic ",
    "\nprotected ",
    "\nprivate ",
    "\nstatic ",
    "\nreturn ",
    "\nif ",
    "\ncontinue ",
    "\nfor ",
    "\nforeach ",
    "\nwhile ",
    "\nswitch ",
    "\nbreak ",
    "\ncase ",
    "\nelse ",
    "\ntry ",
    "\nthrow ",
    "\nfinally ",
    "\ncatch ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// COBOL.
pub(crate) const COBOL: &[&str] = &[
    "\nIDENTIFICATION DIVISION.",
    "\nENVIRONMENT DIVISION.",
    "\nDATA DIVISION.",
    "\nPROCEDURE DIVISION.",
    "\nWORKING-STORAGE SECTION.",
    "\nLINKAGE SECTION.",
    "\nFILE SECTION.",
    "\nINPUT-OUTPUT SECTION.",
    "\nOPEN ",
    "\nCLOSE ",
    "\nREAD ",
    "\nWRITE ",
    "\nIF ",
    "\nELSE ",
    "\nMOVE ",
    "\nPERFORM ",
    "\nUNTIL ",
    "\nVARYING ",
    "\nACCEPT ",
    "\nDISPLAY ",
    "\nSTOP RUN.",
    "\n",
    " ",
    "",
];
/// C.
pub(crate) const C: &[&str] = &[
    "\nclass ",
    "\nvoid ",
    "\nint ",
    "\nfloat ",
    "\ndouble ",
    "\nif ",
    "\nfor ",
    "\nwhile ",
    "\nswitch ",
    "\ncase ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Lua.
pub(crate) const LUA: &[&str] =
    &["\nlocal ", "\nfunction ", "\nif ", "\nfor ", "\nwhile ", "\nrepeat ", "\n\n", "\n", " ", ""];
/// Haskell.
pub(crate) const HASKELL: &[&str] = &[
    "\nmain :: ",
    "\nmain = ",
    "\nlet ",
    "\nin ",
    "\ndo ",
    "\nwhere ",
    "\n:: ",
    "\n= ",
    "\ndata ",
    "\nnewtype ",
    "\ntype ",
    "\nmodule ",
    "\nimport ",
    "\nqualified ",
    "\nimport qualified ",
    "\nclass ",
    "\ninstance ",
    "\ncase ",
    "\n| ",
    "\n= {",
    "\n, ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Elixir.
pub(crate) const ELIXIR: &[&str] = &[
    "\ndef ",
    "\ndefp ",
    "\ndefmodule ",
    "\ndefprotocol ",
    "\ndefmacro ",
    "\ndefmacrop ",
    "\nif ",
    "\nunless ",
    "\ncase ",
    "\ncond ",
    "\nwith ",
    "\nfor ",
    "\ndo ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// PowerShell.
pub(crate) const POWERSHELL: &[&str] = &[
    "\nfunction ",
    "\nparam ",
    "\nif ",
    "\nforeach ",
    "\nfor ",
    "\nwhile ",
    "\nswitch ",
    "\nclass ",
    "\ntry ",
    "\ncatch ",
    "\nfinally ",
    "\n\n",
    "\n",
    " ",
    "",
];
/// Visual Basic 6.
pub(crate) const VISUALBASIC6: &[&str] = &[
    "\\n(?!End\\s)(?:Public|Private|Friend|Global|Static)\\s+?Sub\\s+",
    "\\n(?!End\\s)(?:Public|Private|Friend|Global|Static)\\s+?Function\\s+",
    "\\n(?!End\\s)(?:Public|Private|Friend|Global|Static)\\s+?Property\\s+(?:Get|Let|Set)\\s+",
    "\\n(?!End\\s)(?:Public|Private|Friend|Global|Static)\\s+?Type\\s+",
    "\\n(?!End\\s)(?:Public|Private|Friend|Global|Static)\\s+?Enum\\s+",
    "\\n(?!End\\s)If\\s+",
    "\\nElseIf\\s+",
    "\\nElse\\s+",
    "\\nSelect\\s+Case\\s+",
    "\\nCase\\s+",
    "\\nFor\\s+",
    "\\nDo\\s+",
    "\\nWhile\\s+",
    "\\nWith\\s+",
    "\\n\\n",
    "\\n",
    " ",
    "",
];
