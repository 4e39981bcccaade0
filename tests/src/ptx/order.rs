//! The order in which a function's basic blocks are laid out.
//!
//! The machine always runs the lanes that stand at the lowest instruction, so that lanes which parted come
//! together again. That works when every loop lies in one piece, its exits behind it, and every join behind
//! its branches: a topological order of the strongly connected components, each ordered in the same way
//! inside once its header is taken out.

/// Loops nested deeper than this are left in the order of their first visit.
const MAX_DEPTH: usize = 64;

/// An order of the blocks that block 0 reaches.
pub(crate) fn order(successors: &[Vec<usize>]) -> Vec<usize> {
    let rank = reverse_postorder(successors);
    let mut nodes: Vec<usize> = (0..successors.len()).filter(|&n| rank[n] != usize::MAX).collect();
    nodes.sort_unstable_by_key(|&n| rank[n]);
    let mut out = Vec::with_capacity(nodes.len());
    arrange(&nodes, successors, &rank, 0, &mut out);
    out
}

/// Each node's place in a reverse postorder from node 0; the maximum where it is not reached.
fn reverse_postorder(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut rank = vec![usize::MAX; successors.len()];
    if successors.is_empty() {
        return rank;
    }
    let mut seen = vec![false; successors.len()];
    let mut finished = Vec::new();
    let mut stack = vec![(0, 0)];
    seen[0] = true;
    while let Some((node, next)) = stack.pop() {
        if let Some(&successor) = successors[node].get(next) {
            stack.push((node, next + 1));
            if !seen[successor] {
                seen[successor] = true;
                stack.push((successor, 0));
            }
        } else {
            finished.push(node);
        }
    }
    for (place, &node) in finished.iter().rev().enumerate() {
        rank[node] = place;
    }
    rank
}

fn arrange(nodes: &[usize], successors: &[Vec<usize>], rank: &[usize], depth: usize, out: &mut Vec<usize>) {
    if depth > MAX_DEPTH {
        out.extend_from_slice(nodes);
        return;
    }
    for component in components(nodes, successors) {
        if let [single] = component[..] {
            out.push(single);
            continue;
        }
        let mut rest = component;
        rest.sort_unstable_by_key(|&n| rank[n]);
        out.push(rest.remove(0));
        arrange(&rest, successors, rank, depth + 1, out);
    }
}

/// The strongly connected components of the graph among `nodes`, in topological order (Tarjan).
fn components(nodes: &[usize], successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    const OUTSIDE: usize = usize::MAX - 1;
    let mut index = vec![OUTSIDE; successors.len()];
    for &node in nodes {
        index[node] = NEW;
    }
    let mut low = vec![0; successors.len()];
    let mut done = vec![false; successors.len()];
    let mut counter = 0;
    let mut open = Vec::new();
    let mut found = Vec::new();
    for &root in nodes {
        if index[root] != NEW {
            continue;
        }
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            if next == 0 {
                index[node] = counter;
                low[node] = counter;
                counter += 1;
                open.push(node);
            }
            if let Some(&successor) = successors[node].get(next) {
                stack.push((node, next + 1));
                if index[successor] == NEW {
                    stack.push((successor, 0));
                } else if index[successor] != OUTSIDE && !done[successor] {
                    low[node] = low[node].min(index[successor]);
                }
                continue;
            }
            if low[node] == index[node] {
                let start = open.iter().rposition(|&n| n == node).unwrap_or(0);
                let component = open.split_off(start);
                for &member in &component {
                    done[member] = true;
                }
                found.push(component);
            }
            if let Some(&(parent, _)) = stack.last() {
                low[parent] = low[parent].min(low[node]);
            }
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn order_puts_a_join_behind_both_branches() {
        let found = order(&[vec![1, 2], vec![3], vec![3], vec![]]);
        assert_eq!((found[0], found[3]), (0, 3));
    }

    #[test]
    fn order_keeps_loops_whole_and_exits_behind() {
        // 0 → 1; 1 heads a loop with an inner loop 2 ⇄ 3 and the latch 4; 5 is the exit.
        let graph = [vec![1], vec![5, 2], vec![3, 4], vec![2], vec![1, 5], vec![]];
        let found = order(&graph);
        let place = |n| found.iter().position(|&m| m == n).expect("reached");
        assert_eq!(found.len(), 6);
        assert_eq!((found[0], found[1], found[5]), (0, 1, 5));
        assert_eq!(place(3), place(2) + 1);
        assert_eq!(place(4), 4);
    }

    #[test]
    fn order_leaves_out_what_is_not_reached() {
        assert_eq!(order(&[vec![], vec![0]]), [0]);
        assert_eq!(order(&[vec![0]]), [0]);
    }
}
