//! Small programs in PTX, written by hand: the run time is tested without the compiler that will feed it.

use postlude_ptx::launch::{Buffer, Element, Launch, Parameter, Swizzle, TensorMap};

/// A program and how it is launched.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Program {
    /// PTX, as given to the driver.
    pub(crate) text: String,
    /// The kernel's name in it.
    pub(crate) entry: String,
    /// How it is launched.
    pub(crate) launch: Launch,
}

/// What every text begins with.
const HEADER: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n";

fn launch(grid: [u32; 3], threads: u32, parameters: Vec<Parameter>) -> Launch {
    let cluster = [1, 1, 1];
    Launch { grid, cluster, threads, shared_bytes: 0, parameters, workspace_bytes: 0 }
}

fn pointer(buffer: u32) -> Parameter {
    Parameter::Pointer { buffer: Buffer(buffer), offset: 0 }
}

/// `c[i] = a[i] + b[i]` for buffers 0, 1 and 2 of `count` floats. Different salts give different texts.
pub(crate) fn vector_add(count: u32, salt: &str) -> Program {
    let text = format!(
        "{HEADER}// {salt}
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 count)
{{
    .reg .pred %p;
    .reg .b32 %i, %n, %block, %size;
    .reg .f32 %x, %y;
    .reg .b64 %at, %from, %offset;
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.u32 %i, %block, %size, %i;
    ld.param.u32 %n, [count];
    setp.ge.u32 %p, %i, %n;
    @%p bra DONE;
    mul.wide.u32 %offset, %i, 4;
    ld.param.u64 %from, [a];
    add.u64 %at, %from, %offset;
    ld.global.f32 %x, [%at];
    ld.param.u64 %from, [b];
    add.u64 %at, %from, %offset;
    ld.global.f32 %y, [%at];
    add.rn.f32 %x, %x, %y;
    ld.param.u64 %from, [c];
    add.u64 %at, %from, %offset;
    st.global.f32 [%at], %x;
DONE:
    ret;
}}
"
    );
    let parameters = vec![pointer(0), pointer(1), pointer(2), Parameter::U32(count)];
    let launch = launch([count.div_ceil(256).max(1), 1, 1], 256, parameters);
    Program { text, entry: "vector_add".to_owned(), launch }
}

/// Copies buffer 0 to buffer 1, both `rows` by `columns` floats, in boxes of 8 by 32 through shared memory.
pub(crate) fn tensor_copy(rows: u32, columns: u32) -> Program {
    let text = format!(
        "{HEADER}.extern .shared .align 1024 .b8 memory[];
.visible .entry tensor_copy(.param .align 64 .b8 source[128], .param .align 64 .b8 result[128])
.maxntid 32
{{
    .reg .pred %p;
    .reg .b32 %thread, %tile, %full, %x, %y;
    .reg .b64 %from, %to;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %p, %thread, 0;
    @%p bra DONE;
    mov.u32 %tile, memory;
    add.u32 %full, %tile, 1024;
    mov.b64 %from, source;
    cvta.param.u64 %from, %from;
    mov.b64 %to, result;
    cvta.param.u64 %to, %to;
    mov.u32 %x, %ctaid.x;
    shl.b32 %x, %x, 5;
    mov.u32 %y, %ctaid.y;
    shl.b32 %y, %y, 3;
    mbarrier.init.shared::cta.b64 [%full], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%from, {{%x, %y}}], [%full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], 0;
    @!%p bra WAIT;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%to, {{%x, %y}}], [%tile];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
DONE:
    ret;
}}
"
    );
    let map = |buffer| {
        Parameter::Map(TensorMap {
            buffer: Buffer(buffer),
            offset: 0,
            element: Element::F32,
            sizes: vec![u64::from(columns), u64::from(rows)],
            strides: vec![u64::from(columns) * 4],
            box_sizes: vec![32, 8],
            swizzle: Swizzle::B128,
        })
    };
    let grid = [columns.div_ceil(32), rows.div_ceil(8), 1];
    // More than a CTA gets without asking, to see that the limit is raised.
    let launch = Launch { shared_bytes: 200_000, ..launch(grid, 32, vec![map(0), map(1)]) };
    Program { text, entry: "tensor_copy".to_owned(), launch }
}

/// Each CTA writes to buffer 0 what its neighbour in a cluster of two has in shared memory: 100 plus its number.
pub(crate) fn cluster_swap(blocks: u32) -> Program {
    let text = format!(
        "{HEADER}
.visible .entry cluster_swap(.param .u64 out)
.explicitcluster
.reqnctapercluster 2, 1, 1
.maxntid 32
{{
    .reg .pred %p;
    .reg .b32 %thread, %block, %rank, %value, %mine, %theirs;
    .reg .b64 %at, %offset;
    .shared .align 4 .b32 cell;
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %mine, cell;
    setp.ne.u32 %p, %thread, 0;
    add.u32 %value, %block, 100;
    @!%p st.shared.b32 [%mine], %value;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %rank, %rank, 1;
    mapa.shared::cluster.u32 %theirs, %mine, %rank;
    ld.shared::cluster.b32 %value, [%theirs];
    ld.param.u64 %at, [out];
    mul.wide.u32 %offset, %block, 4;
    add.u64 %at, %at, %offset;
    @!%p st.global.b32 [%at], %value;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"
    );
    let launch = Launch { cluster: [2, 1, 1], ..launch([blocks, 1, 1], 32, vec![pointer(0)]) };
    Program { text, entry: "cluster_swap".to_owned(), launch }
}

/// The last of `blocks` CTAs to arrive adds 1 to the number in buffer 0.
///
/// The counter is `counter` bytes into the workspace; it is left at zero, as is all of the workspace.
pub(crate) fn last_arriver(blocks: u32, counter: u64) -> Program {
    let text = format!(
        "{HEADER}
.visible .entry last_arriver(.param .u64 counter, .param .u64 out, .param .u32 blocks)
{{
    .reg .pred %p;
    .reg .b32 %block, %old, %last;
    .reg .b64 %at, %offset, %dirt, %out;
    ld.param.u64 %at, [counter];
    mov.u32 %block, %ctaid.x;
    mul.wide.u32 %offset, %block, 4;
    add.u64 %dirt, %at, %offset;
    st.global.b32 [%dirt+4], 0;
    atom.acq_rel.gpu.global.add.u32 %old, [%at], 1;
    ld.param.u32 %last, [blocks];
    sub.u32 %last, %last, 1;
    setp.ne.u32 %p, %old, %last;
    @%p bra DONE;
    st.global.b32 [%at], 0;
    ld.param.u64 %out, [out];
    red.relaxed.gpu.global.add.u32 [%out], 1;
DONE:
    ret;
}}
"
    );
    let workspace = Parameter::Pointer { buffer: Buffer::WORKSPACE, offset: counter };
    let parameters = vec![workspace, pointer(0), Parameter::U32(blocks)];
    let workspace_bytes = counter + 4 + u64::from(blocks) * 4;
    let launch = Launch { workspace_bytes, ..launch([blocks, 1, 1], 1, parameters) };
    Program { text, entry: "last_arriver".to_owned(), launch }
}
