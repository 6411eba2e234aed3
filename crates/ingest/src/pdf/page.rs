//! Running a page: what its content draws, as text.

use std::sync::Arc;

use lopdf::{Dictionary, Document, Object, ObjectId, Stream};

use super::font::{Font, Fonts};
use super::lexer::{Lexer, Word};
use super::lines::{Lines, Point};

/// Bytes of content that a file may run, forms counted each time they are drawn.
const CONTENT_BYTES: usize = 256 << 20;
/// Most bytes of one stream of content.
const MAX_STREAM_BYTES: usize = 64 << 20;
/// Most forms within each other.
const MAX_FORM_DEPTH: usize = 12;
/// What drawing a form costs beside its content, in bytes of content: finding it takes as long as reading so many.
const FORM_BYTES: usize = 256;
/// What a page or a stream of one costs beside its content.
const STREAM_BYTES: usize = 64;
/// Most saved states; further ones are counted and not kept.
const MAX_SAVED_STATES: usize = 256;
/// Most operands that are kept for an operator; lists of texts are the longest.
const MAX_OPERANDS: usize = 1 << 16;

/// What a file may still take.
pub(super) struct Budget {
    content_bytes: usize,
    text_bytes: usize,
    max_text_bytes: usize,
}

impl Budget {
    pub(super) fn new(max_text_bytes: usize) -> Self {
        Self { content_bytes: CONTENT_BYTES, text_bytes: max_text_bytes, max_text_bytes }
    }
}

/// Why a page was given up.
pub(super) enum PageFault {
    TooMuchWork,
    TooMuchText {
        /// The most that a file may have.
        limit: usize,
    },
}

/// The text of a page, in the order in which it is drawn; empty when it has none. O(bytes of content that it runs).
pub(super) fn text(
    document: &Document,
    page: ObjectId,
    resources: Option<&Dictionary>,
    fonts: &mut Fonts,
    budget: &mut Budget,
) -> Result<String, PageFault> {
    let mut run = Run { document, fonts, budget, lines: Lines::default() };
    run.spend(STREAM_BYTES)?;
    // The streams of a page are one content, cut anywhere between two words.
    let mut content = Vec::new();
    for id in document.get_page_contents(page) {
        if let Ok(stream) = document.get_object(id).and_then(Object::as_stream) {
            content.extend(run.content(stream)?);
            content.push(b'\n');
        }
    }
    run.content_of(&content, resources, State::default(), 0)?;
    let text = run.lines.finish();
    match budget.text_bytes.checked_sub(text.len()) {
        Some(left) => budget.text_bytes = left,
        None => return Err(PageFault::TooMuchText { limit: budget.max_text_bytes }),
    }
    Ok(text)
}

/// A transformation of the plane: (x, y) becomes (a·x + c·y + e, b·x + d·y + f).
#[derive(Debug, Clone, Copy)]
struct Matrix {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    e: f64,
    f: f64,
}

impl Matrix {
    const IDENTITY: Self = Self { a: 1.0, b: 0.0, c: 0.0, d: 1.0, e: 0.0, f: 0.0 };

    fn shift(x: f64, y: f64) -> Self {
        Self { e: x, f: y, ..Self::IDENTITY }
    }

    fn from_numbers(numbers: &[f64]) -> Option<Self> {
        match *numbers {
            [a, b, c, d, e, f] => Some(Self { a, b, c, d, e, f }),
            _ => None,
        }
    }

    /// First this one, then the other.
    fn then(self, other: Self) -> Self {
        Self {
            a: self.a * other.a + self.b * other.c,
            b: self.a * other.b + self.b * other.d,
            c: self.c * other.a + self.d * other.c,
            d: self.c * other.b + self.d * other.d,
            e: self.e * other.a + self.f * other.c + other.e,
            f: self.e * other.b + self.f * other.d + other.f,
        }
    }

    fn origin(self) -> Point {
        (self.e, self.f)
    }
}

/// What operators set.
#[derive(Clone)]
struct State {
    transform: Matrix,
    font: Option<Arc<Font>>,
    size: f64,
    character_space: f64,
    word_space: f64,
    /// 1 for letters as wide as they are.
    stretch: f64,
    leading: f64,
    rise: f64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            transform: Matrix::IDENTITY,
            font: None,
            size: 0.0,
            character_space: 0.0,
            word_space: 0.0,
            stretch: 1.0,
            leading: 0.0,
            rise: 0.0,
        }
    }
}

struct Run<'r> {
    document: &'r Document,
    fonts: &'r mut Fonts,
    budget: &'r mut Budget,
    lines: Lines,
}

/// An operand of an operator.
enum Operand {
    Number(f64),
    Name(Vec<u8>),
    Text(Vec<u8>),
}

impl Run<'_> {
    /// The bytes of a stream; none when it cannot be unpacked, or is longer than any content.
    fn content(&mut self, stream: &Stream) -> Result<Vec<u8>, PageFault> {
        let most = self.budget.content_bytes.min(MAX_STREAM_BYTES);
        let content = match stream.get_plain_content_with_limit(most) {
            Ok(content) => content,
            Err(lopdf::Error::Decompress(lopdf::DecompressError::MemoryLimitExceeded { .. })) => {
                return Err(PageFault::TooMuchWork);
            }
            Err(_) => Vec::new(),
        };
        // What cannot be unpacked has its cost too.
        self.spend(content.len().max(stream.content.len()).saturating_add(STREAM_BYTES))?;
        Ok(content)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), PageFault> {
        self.budget.content_bytes = self.budget.content_bytes.checked_sub(bytes).ok_or(PageFault::TooMuchWork)?;
        Ok(())
    }

    fn content_of(
        &mut self,
        content: &[u8],
        resources: Option<&Dictionary>,
        state: State,
        depth: usize,
    ) -> Result<(), PageFault> {
        let mut drawing =
            Drawing { state, saved: Vec::new(), not_saved: 0, text: Matrix::IDENTITY, line: Matrix::IDENTITY };
        let mut operands: Vec<Operand> = Vec::new();
        let mut words = Lexer::new(content);
        while let Some(word) = words.next() {
            let operand = match word {
                Word::Number(number) => Operand::Number(number),
                Word::Name(name) => Operand::Name(name),
                Word::Text(text) => Operand::Text(text),
                Word::ListStart | Word::ListEnd => continue,
                Word::Operator(b"BI") => {
                    words.skip_image();
                    operands.clear();
                    continue;
                }
                Word::Operator(b"Do") => {
                    if let Some(Operand::Name(name)) = operands.last() {
                        self.form(name, resources, &drawing.state, depth)?;
                    }
                    operands.clear();
                    continue;
                }
                Word::Operator(operator) => {
                    self.operator(operator, &operands, resources, &mut drawing)?;
                    operands.clear();
                    if self.lines.bytes() > self.budget.text_bytes {
                        return Err(PageFault::TooMuchText { limit: self.budget.max_text_bytes });
                    }
                    continue;
                }
            };
            if operands.len() < MAX_OPERANDS {
                operands.push(operand);
            }
        }
        Ok(())
    }

    /// Draws what a page calls by a name, when it is a form and no image.
    fn form(
        &mut self,
        name: &[u8],
        resources: Option<&Dictionary>,
        state: &State,
        depth: usize,
    ) -> Result<(), PageFault> {
        if depth >= MAX_FORM_DEPTH {
            return Ok(());
        }
        self.spend(FORM_BYTES)?;
        let document = self.document;
        let form = resources
            .and_then(|resources| resources.get_deref(b"XObject", document).ok()?.as_dict().ok())
            .and_then(|objects| objects.get_deref(name, document).ok()?.as_stream().ok())
            .filter(|form| {
                form.dict.get_deref(b"Subtype", document).and_then(Object::as_name).is_ok_and(|name| name == b"Form")
            });
        let Some(form) = form else {
            return Ok(());
        };
        let content = self.content(form)?;
        let own = form.dict.get_deref(b"Resources", document).and_then(Object::as_dict).ok();
        let matrix = form.dict.get_deref(b"Matrix", document).and_then(Object::as_array).ok().and_then(|matrix| {
            let numbers: Vec<f64> = matrix.iter().filter_map(|number| number.as_float().ok()).map(f64::from).collect();
            Matrix::from_numbers(&numbers)
        });
        let transform = matrix.unwrap_or(Matrix::IDENTITY).then(state.transform);
        self.content_of(&content, own.or(resources), State { transform, ..state.clone() }, depth + 1)
    }

    fn operator(
        &mut self,
        operator: &[u8],
        operands: &[Operand],
        resources: Option<&Dictionary>,
        drawing: &mut Drawing,
    ) -> Result<(), PageFault> {
        // Operators that take numbers have only such, but for the font.
        let numbers: Vec<f64> = match operator {
            b"TJ" | b"Tj" | b"'" => Vec::new(),
            _ => operands
                .iter()
                .filter_map(|operand| if let Operand::Number(number) = operand { Some(*number) } else { None })
                .take(6)
                .collect(),
        };
        match (operator, numbers.as_slice()) {
            (b"q", _) => drawing.save(),
            (b"Q", _) => drawing.restore(),
            (b"cm", numbers) => {
                if let Some(matrix) = Matrix::from_numbers(numbers) {
                    drawing.state.transform = matrix.then(drawing.state.transform);
                }
            }
            (b"BT", _) => (drawing.text, drawing.line) = (Matrix::IDENTITY, Matrix::IDENTITY),
            (b"Tf", [size]) => {
                if let Some(Operand::Name(name)) = operands.first() {
                    let found = self.fonts.get(self.document, resources, name);
                    self.spend(found.as_ref().map_or(0, |(_, bytes)| *bytes))?;
                    drawing.state.font = found.map(|(font, _)| font);
                }
                drawing.state.size = *size;
            }
            (b"Tc", [space]) => drawing.state.character_space = *space,
            (b"Tw", [space]) => drawing.state.word_space = *space,
            (b"Tz", [percent]) => drawing.state.stretch = percent / 100.0,
            (b"TL", [leading]) => drawing.state.leading = *leading,
            (b"Ts", [rise]) => drawing.state.rise = *rise,
            (b"Td", [x, y]) => drawing.move_line(*x, *y),
            (b"TD", [x, y]) => {
                drawing.state.leading = -y;
                drawing.move_line(*x, *y);
            }
            (b"Tm", numbers) => {
                if let Some(matrix) = Matrix::from_numbers(numbers) {
                    (drawing.text, drawing.line) = (matrix, matrix);
                }
            }
            (b"T*", _) => drawing.next_line(),
            (b"Tj", _) => self.show(operands, drawing),
            (b"TJ", _) => self.show(operands, drawing),
            (b"'", _) => {
                drawing.next_line();
                self.show(operands, drawing);
            }
            (b"\"", [word_space, character_space]) => {
                drawing.state.word_space = *word_space;
                drawing.state.character_space = *character_space;
                drawing.next_line();
                self.show(operands.get(2..).unwrap_or_default(), drawing);
            }
            _ => {}
        }
        Ok(())
    }

    /// Texts, and between them numbers that move back, in thousandths of the font's size.
    fn show(&mut self, operands: &[Operand], drawing: &mut Drawing) {
        for operand in operands {
            match operand {
                Operand::Text(codes) => self.show_text(codes, drawing),
                Operand::Number(number) => {
                    let state = &drawing.state;
                    let shift = -number / 1000.0 * state.size * state.stretch;
                    drawing.text = Matrix::shift(shift, 0.0).then(drawing.text);
                }
                Operand::Name(_) => {}
            }
        }
    }

    fn show_text(&mut self, codes: &[u8], drawing: &mut Drawing) {
        let state = &drawing.state;
        let Some(font) = state.font.clone() else {
            return;
        };
        let mut text = String::new();
        let mut length = 0.0;
        for code in codes.chunks(font.code_bytes()) {
            let is_space = code == b" ";
            let code = code.iter().fold(0_u32, |code, byte| code << 8 | u32::from(*byte));
            let before = text.len();
            font.write(code, &mut text);
            let letters = text.get(before..).unwrap_or_default();
            let width = font.width(code, letters) / 1000.0 * state.size;
            let space = state.character_space + if is_space { state.word_space } else { 0.0 };
            length += (width + space) * state.stretch;
            // More is too much, which the caller sees.
            if text.len() > self.budget.text_bytes {
                break;
            }
        }
        let place = |shift: f64| Matrix::shift(shift, state.rise).then(drawing.text).then(state.transform);
        let start = place(0.0);
        // The height of letters, wherever they are turned to.
        let size = state.size.abs() * start.c.hypot(start.d);
        self.lines.write(&text, start.origin(), place(length).origin(), size);
        drawing.text = Matrix::shift(length, 0.0).then(drawing.text);
    }
}

/// Where a content is.
struct Drawing {
    state: State,
    saved: Vec<State>,
    /// Saved states beyond those that are kept.
    not_saved: usize,
    /// Where the next text is.
    text: Matrix,
    /// Where its line began.
    line: Matrix,
}

impl Drawing {
    fn save(&mut self) {
        if self.saved.len() < MAX_SAVED_STATES {
            self.saved.push(self.state.clone());
        } else {
            self.not_saved += 1;
        }
    }

    fn restore(&mut self) {
        if self.not_saved > 0 {
            self.not_saved -= 1;
        } else if let Some(state) = self.saved.pop() {
            self.state = state;
        }
    }

    fn move_line(&mut self, x: f64, y: f64) {
        self.line = Matrix::shift(x, y).then(self.line);
        self.text = self.line;
    }

    fn next_line(&mut self) {
        self.move_line(0.0, -self.state.leading);
    }
}
