//! A map whose values are made once for each key, by whichever thread asks first.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// A map whose values are made on first use.
///
/// Threads that ask for the same key at once wait for the one that makes the value; other keys are not held up.
/// A failure is not kept: the next to ask tries again.
pub(super) struct OnceMap<K, V> {
    cells: RwLock<HashMap<K, Arc<Cell<V>>>>,
}

struct Cell<V> {
    value: OnceLock<V>,
    making: Mutex<()>,
}

impl<K, V> Default for OnceMap<K, V> {
    fn default() -> Self {
        Self { cells: RwLock::default() }
    }
}

impl<K: Eq + Hash + Copy, V: Clone> OnceMap<K, V> {
    /// The key's value, made now if there is none.
    pub(super) fn get_or_make<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let cell = self.cell(key);
        if let Some(value) = cell.value.get() {
            return Ok(value.clone());
        }
        // A panic in `make` leaves nothing half done behind.
        let _making = cell.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = cell.value.get() {
            return Ok(value.clone());
        }
        let value = make()?;
        Ok(cell.value.get_or_init(|| value).clone())
    }

    fn cell(&self, key: &K) -> Arc<Cell<V>> {
        if let Some(cell) = self.cells.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Arc::clone(cell);
        }
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let cell = cells
            .entry(*key)
            .or_insert_with(|| Arc::new(Cell { value: OnceLock::new(), making: Mutex::default() }));
        Arc::clone(cell)
    }
}
