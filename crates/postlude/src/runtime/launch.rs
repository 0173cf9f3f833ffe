//! Launches: everything that can be done before is done once, so that the launch itself costs a few microseconds.

use postlude_ptx::launch::{Buffer, Launch, Parameter, TensorMap};

use crate::runtime::driver::{self, Order, Stream};
use crate::runtime::error::RuntimeError;
use crate::runtime::function::Function;
use crate::runtime::parameters::{self, Block, Layout};

/// A launch with everything checked and encoded: repeated launches allocate nothing on the host.
///
/// ```no_run
/// use postlude::runtime::{Device, PreparedLaunch, Stream};
/// use postlude_ptx::launch::{Buffer, Launch};
/// fn run(
///     text: &str,
///     launch: Launch,
///     input: u64,
///     output: u64,
/// ) -> Result<(), postlude::runtime::RuntimeError> {
///     let device = Device::open(0)?;
///     let stream = Stream::new(&device)?;
///     let function = device.load(text, "relu")?;
///     let buffers = [(Buffer(0), input), (Buffer(1), output)];
///     let launch = PreparedLaunch::new(&function, launch, &buffers)?;
///     for _ in 0..1000 {
///         launch.launch(&stream)?;
///     }
///     stream.synchronize()
/// }
/// ```
pub struct PreparedLaunch {
    function: Function,
    launch: Launch,
    layout: Layout,
    block: Box<Block>,
}

impl PreparedLaunch {
    /// Checks a launch against the kernel and its GPU, and encodes its parameters for buffers at these addresses.
    ///
    /// Addresses are the GPU's; arguments are checked by [`crate::runtime::validate`] before they come here.
    pub fn new(
        function: &Function,
        launch: Launch,
        addresses: &[(Buffer, u64)],
    ) -> Result<PreparedLaunch, RuntimeError> {
        function.allow(&launch)?;
        let layout = Layout::new(&launch, function.parameter_sizes())?;
        let block = Box::new(Block::of(&layout));
        let mut prepared = PreparedLaunch { function: function.clone(), launch, layout, block };
        prepared.write(|parameter| !is_workspace(parameter), addresses)?;
        Ok(prepared)
    }

    /// The same launch on buffers at other addresses; allocates nothing.
    pub fn rebind(&mut self, addresses: &[(Buffer, u64)]) -> Result<(), RuntimeError> {
        self.write(leads_to_tensor, addresses)
    }

    /// Queues the kernel on a stream and returns; failures on the GPU come up when the stream is waited for.
    pub fn launch(&self, stream: &Stream) -> Result<(), RuntimeError> {
        self.launch_block(stream, &self.block, Order::Behind)
    }

    /// The same, which may begin before the launch before it has ended: its code has to wait for that.
    pub(crate) fn launch_in(&self, stream: &Stream, order: Order) -> Result<(), RuntimeError> {
        self.launch_block(stream, &self.block, order)
    }

    /// The same with buffers at other addresses, for this launch alone.
    pub(crate) fn launch_at(
        &self,
        stream: &Stream,
        order: Order,
        address: impl Fn(Buffer) -> Result<u64, RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let mut block = self.copy_of(&self.block);
        let context = self.function.device().context();
        let encode = |map: &TensorMap, at| driver::encode(context, map, at);
        self.layout.write(&self.launch, &mut block, leads_to_tensor, address, encode)?;
        self.launch_block(stream, &block, order)
    }

    fn launch_block(
        &self,
        stream: &Stream,
        block: &Block,
        order: Order,
    ) -> Result<(), RuntimeError> {
        let device = self.function.device();
        if stream.device().ordinal() != device.ordinal() {
            let (stream, kernel) = (stream.device().ordinal(), device.ordinal());
            return Err(RuntimeError::StreamDevice { stream, kernel });
        }
        if self.launch.workspace_bytes == 0 {
            return self.queue(stream, block, order);
        }
        let bytes = self.launch.workspace_bytes;
        device.workspaces().with(device.context(), stream, bytes, |address| {
            // A copy, for other threads launch from the same block.
            let mut block = self.copy_of(block);
            let encode = |map: &TensorMap, at| driver::encode(device.context(), map, at);
            self.layout.write(&self.launch, &mut block, is_workspace, |_| Ok(address), encode)?;
            self.queue(stream, &block, order)
        })
    }

    fn copy_of(&self, from: &Block) -> Block {
        let mut block = Block::of(&self.layout);
        let used = self.layout.bytes();
        block.bytes_mut()[..used].copy_from_slice(&from.bytes()[..used]);
        block
    }

    /// The kernel.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// How it is launched.
    pub fn facts(&self) -> &Launch {
        &self.launch
    }

    fn queue(&self, stream: &Stream, block: &Block, order: Order) -> Result<(), RuntimeError> {
        let offsets = self.layout.offsets();
        self.function.handle().launch(&self.launch, stream, block.bytes(), offsets, order)
    }

    fn write(
        &mut self,
        which: impl Fn(&Parameter) -> bool,
        addresses: &[(Buffer, u64)],
    ) -> Result<(), RuntimeError> {
        let address = |buffer: Buffer| {
            let found = addresses.iter().find(|(known, _)| *known == buffer);
            found.map(|(_, address)| *address).ok_or(RuntimeError::NoAddress { buffer })
        };
        let context = self.function.device().context();
        let encode = |map: &TensorMap, at| driver::encode(context, map, at);
        // Beside its place, so that a failure in the middle changes nothing.
        let mut block = self.copy_of(&self.block);
        self.layout.write(&self.launch, &mut block, which, address, encode)?;
        *self.block = block;
        Ok(())
    }
}

/// Whether a parameter leads to scratch memory, which is known only when the launch is queued.
fn is_workspace(parameter: &Parameter) -> bool {
    parameters::buffer(parameter) == Some(Buffer::WORKSPACE)
}

/// Whether a parameter leads to a tensor of the caller's.
fn leads_to_tensor(parameter: &Parameter) -> bool {
    !is_workspace(parameter) && parameters::buffer(parameter).is_some()
}
