//! What every vector of another service must be before it is believed.

/// `vector`, where it has `dimension` finite elements.
///
/// # Errors
/// Says what is wrong; continues "a vector that …".
pub(crate) fn check_vector(vector: Vec<f32>, dimension: u32) -> Result<Vec<f32>, String> {
    if vector.len() != dimension as usize {
        return Err(format!("has {} elements instead of {dimension}", vector.len()));
    }
    match vector.iter().position(|element| !element.is_finite()) {
        Some(index) => Err(format!("has no finite number at index {index}")),
        None => Ok(vector),
    }
}

/// Has it unit length, as far as f32 can tell?
pub(crate) fn is_unit(vector: &[f32]) -> bool {
    let squares: f64 = vector.iter().map(|element| f64::from(*element).powi(2)).sum();
    (squares.sqrt() - 1.0).abs() < 1e-3
}
