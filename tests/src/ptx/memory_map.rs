//! Where the state spaces lie among generic addresses.

use super::syntax::Space;

/// The size of each space's window.
pub(crate) const WINDOW: u64 = 1 << 32;

/// The generic address of a space's address zero. Device memory has its own addresses.
pub(crate) fn window(space: Space) -> u64 {
    match space {
        Space::Global | Space::Generic => 0,
        Space::Shared => 1 << 56,
        Space::Local => 2 << 56,
        Space::Const => 3 << 56,
        Space::Param => 4 << 56,
    }
}

/// The space of a generic address.
pub(crate) fn space_of(address: u64) -> Space {
    [Space::Shared, Space::Local, Space::Const, Space::Param]
        .into_iter()
        .find(|&space| address.wrapping_sub(window(space)) < WINDOW)
        .unwrap_or(Space::Global)
}
