//! Windows.

use super::StampFlags;
use crate::cmsg::ReceivedInfo;
use crate::sys::ReceiveMode;
use jitlat_core::Span;
use socket2::{SockRef, Socket};
use std::cell::OnceCell;
use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::windows::io::AsRawHandle;
use std::os::windows::io::{AsRawSocket, AsSocket, FromRawHandle, OwnedHandle, RawSocket};
use std::ptr::null;
use std::sync::{Once, OnceLock};
use std::time::Duration;
use windows_sys::Win32::Foundation::WAIT_FAILED;
use windows_sys::Win32::Media::timeBeginPeriod;
use windows_sys::Win32::Networking::WinSock as ws;
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;
use windows_sys::Win32::System::Threading as threads;

pub use std::os::windows::io::{BorrowedSocket as BorrowedFd, OwnedSocket as OwnedFd};

/// A socket that can be borrowed.
pub trait AsFd {
    /// Borrows the socket.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl<T: AsSocket> AsFd for T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_socket()
    }
}

/// Number of the error of a connection attempt that continues in the background.
pub(crate) const IN_PROGRESS: i32 = ws::WSAEINPROGRESS;
/// Number of the error of a datagram that is too long.
pub(crate) const MESSAGE_TOO_LONG: i32 = ws::WSAEMSGSIZE;
/// Description of the parts that were never run on this system.
pub(crate) const NEVER_RUN: Option<&str> = Some(
    "this version was run under Wine, never on Windows itself: its waits and clocks, DSCP, ICMP without the rights of an \
     administrator, firewalls and the live view in a console are untested there",
);
/// Time before a deadline at which a thread stops sleeping and spins: the timers of Windows have steps of 0.5 ms, and the
/// waits for sockets of 1 ms.
pub(crate) const SPIN_TIME: Span = Span::millis(2);

/// Number of a socket.
pub(crate) type RawDescriptor = RawSocket;

/// Returns the number of `socket`.
pub(crate) fn raw(socket: BorrowedFd<'_>) -> RawDescriptor {
    socket.as_raw_socket()
}

/// Events of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFlags(i16);

impl PollFlags {
    /// It can be read.
    pub const POLLIN: PollFlags = PollFlags(ws::POLLRDNORM | ws::POLLRDBAND);
    /// It accepts data.
    pub const POLLOUT: PollFlags = PollFlags(ws::POLLWRNORM);
    /// It has failed.
    pub const POLLERR: PollFlags = PollFlags(ws::POLLERR);
    /// It is closed.
    pub const POLLNVAL: PollFlags = PollFlags(ws::POLLNVAL);

    /// Returns no events.
    pub fn empty() -> PollFlags {
        PollFlags(0)
    }

    /// True if there are no events.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if any of `other` is among the events.
    pub fn contains(self, other: PollFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds `other` if `value` is true, and removes it otherwise.
    pub fn set(&mut self, other: PollFlags, value: bool) {
        if value { self.0 |= other.0 } else { self.0 &= !other.0 }
    }
}

impl std::ops::BitOr for PollFlags {
    type Output = PollFlags;

    fn bitor(self, other: PollFlags) -> PollFlags {
        PollFlags(self.0 | other.0)
    }
}

/// A socket to wait for.
#[repr(transparent)]
pub struct PollFd<'a>(ws::WSAPOLLFD, PhantomData<&'a ()>);

impl<'a> PollFd<'a> {
    /// Waits for `events` of `socket`.
    pub fn new(socket: BorrowedFd<'a>, events: PollFlags) -> PollFd<'a> {
        poll_fd(raw(socket), events)
    }

    /// Returns the events that have occurred.
    pub fn revents(&self) -> Option<PollFlags> {
        Some(PollFlags(self.0.revents))
    }

    /// True if any event has occurred.
    pub fn any(&self) -> Option<bool> {
        Some(self.0.revents != 0)
    }
}

/// Waits for `events` of the socket with the number `raw`.
pub(crate) fn poll_fd<'a>(raw: RawDescriptor, events: PollFlags) -> PollFd<'a> {
    PollFd(ws::WSAPOLLFD { fd: raw as ws::SOCKET, events: events.0, revents: 0 }, PhantomData)
}

/// Waits until one of `fds` is ready, for at most `timeout`, rounded up to whole milliseconds; `None`: without a limit.
/// Returns the number of ready sockets.
///
/// # Errors
/// Errors of the system.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Span>) -> io::Result<usize> {
    let timeout =
        timeout.map(|span| span.0.max(0).unsigned_abs().div_ceil(1_000_000).min(i32::MAX as u64) as i32);
    if fds.is_empty() {
        // WSAPoll fails without sockets.
        std::thread::sleep(Duration::from_millis(timeout.unwrap_or(50).unsigned_abs().into()));
        return Ok(0);
    }
    // SAFETY: PollFd has the layout of WSAPOLLFD, and the slice is exclusively borrowed for the whole call.
    let count = unsafe { ws::WSAPoll(fds.as_mut_ptr().cast(), fds.len() as u32, timeout.unwrap_or(-1)) };
    if count < 0 { Err(last_error()) } else { Ok(count as usize) }
}

fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// Receives a datagram. Returns its length, its sender, and what the system reported about it.
pub(super) fn receive_one(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    mode: ReceiveMode,
    peek: bool,
) -> io::Result<(usize, Option<SocketAddr>, ReceivedInfo)> {
    // Windows has no flag for calls that do not wait.
    if mode == ReceiveMode::Queued
        && poll(&mut [PollFd::new(socket, PollFlags::POLLIN)], Some(Span::ZERO))? == 0
    {
        return Err(ErrorKind::WouldBlock.into());
    }
    // SAFETY: MaybeUninit<u8> has the layout of u8, and socket2 only writes initialised bytes to it.
    let room = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    let socket = SockRef::from(&socket);
    let received = if peek { socket.peek_from(room) } else { socket.recv_from(room) };
    let (length, sender) = received?;
    Ok((length, sender.as_socket(), ReceivedInfo::default()))
}

/// Does nothing: what the system reports about packets is not read.
pub(crate) fn observe(_: &impl AsFd, _: bool) {}

/// Returns an error if stamps are requested.
pub(crate) fn set_stamps(_: &impl AsFd, flags: StampFlags) -> io::Result<()> {
    if !flags.received && !flags.sent {
        return Ok(());
    }
    super::only_linux("stamps of the kernel")
}

/// Sets the octet of DSCP and ECN field of sent packets.
///
/// # Errors
/// Always, unless the octet is 0: the call succeeds, but has an effect only if a policy of the administrator permits it.
pub(crate) fn set_traffic_class(socket: &impl AsFd, octet: u8) -> io::Result<()> {
    let socket = socket.as_fd();
    let socket = SockRef::from(&socket);
    let is_v4 = socket.local_addr().is_ok_and(|at| at.is_ipv4());
    if is_v4 {
        let _ = socket.set_tos_v4(octet.into());
    }
    if octet == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::Unsupported,
        "Windows sends them only if a policy of its administrator permits it; the far host reports what arrives",
    ))
}

/// Returns an error: the interface cannot be chosen.
pub(crate) fn bind_device(_: &Socket, _: &str, _: bool) -> io::Result<()> {
    Err(io::Error::new(
        ErrorKind::Unsupported,
        "--interface: not on Windows; use --bind with an address of the interface",
    ))
}

/// Sleeps for `span`.
pub(super) fn sleep(span: Duration) {
    thread_local! {
        static TIMER: OnceCell<Option<OwnedHandle>> = const { OnceCell::new() };
    }
    let slept = TIMER.with(|timer| {
        let Some(timer) = timer.get_or_init(new_timer) else { return false };
        // Negative: a span from now, in units of 100 ns.
        let due = -((span.as_nanos() / 100).min(i64::MAX as u128) as i64);
        let handle = timer.as_raw_handle();
        // SAFETY: the handle is that of a timer that this thread owns; `due` outlives the call, and no function is called
        // at the deadline.
        let set = unsafe { threads::SetWaitableTimer(handle, &raw const due, 0, None, null(), 0) };
        // SAFETY: as above.
        set != 0 && unsafe { threads::WaitForSingleObject(handle, threads::INFINITE) } == 0
    });
    if !slept {
        std::thread::sleep(span);
    }
}

/// Creates a timer with high resolution; `None` before Windows 10 of 2018, which has none.
fn new_timer() -> Option<OwnedHandle> {
    let kind = threads::CREATE_WAITABLE_TIMER_HIGH_RESOLUTION | threads::CREATE_WAITABLE_TIMER_MANUAL_RESET;
    // SAFETY: the pointers may be null: no attributes, no name.
    let handle = unsafe { threads::CreateWaitableTimerExW(null(), null(), kind, threads::TIMER_ALL_ACCESS) };
    // SAFETY: a handle that is not null belongs to the caller alone.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle.cast::<c_void>()) })
}

/// Makes the timers of the process as exact as the system permits: 1 ms instead of 15.6 ms.
pub(crate) fn sharpen_timers() -> io::Result<()> {
    static ONCE: Once = Once::new();
    // SAFETY: takes an integer. The setting ends with the process.
    ONCE.call_once(|| _ = unsafe { timeBeginPeriod(1) });
    Ok(())
}

/// Pins the calling thread to a processor.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    let mask =
        u32::try_from(cpu).ok().and_then(|cpu| 1usize.checked_shl(cpu)).ok_or(ErrorKind::InvalidInput)?;
    // SAFETY: the pseudo handle of the calling thread is always valid.
    let before = unsafe { threads::SetThreadAffinityMask(threads::GetCurrentThread(), mask) };
    if before == 0 { Err(last_error()) } else { Ok(()) }
}

fn set_thread_priority(priority: i32) -> io::Result<()> {
    // SAFETY: the pseudo handle of the calling thread is always valid.
    let set = unsafe { threads::SetThreadPriority(threads::GetCurrentThread(), priority) };
    if set == 0 { Err(last_error()) } else { Ok(()) }
}

/// Runs the calling thread before all others that are not real-time.
pub(crate) fn schedule_fifo(_priority: u8) -> io::Result<()> {
    set_thread_priority(threads::THREAD_PRIORITY_TIME_CRITICAL)
}

/// Gives the calling thread the lowest priority.
pub(crate) fn yield_to_others() -> io::Result<()> {
    set_thread_priority(threads::THREAD_PRIORITY_LOWEST)
}

/// Returns the name of this host, and the name of its system.
pub(crate) fn names() -> (Option<String>, Option<String>) {
    (std::env::var("COMPUTERNAME").ok(), Some("Windows".to_owned()))
}

/// Returns an error: interfaces are not listed.
///
/// # Errors
/// Always.
pub(crate) fn interfaces() -> io::Result<Vec<super::InterfaceAddress>> {
    super::only_linux("listing interfaces")
}

/// Returns the number of an interface, if `name` is a number.
///
/// # Errors
/// `name` is not a number.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    name.parse().map_err(|_| ErrorKind::NotFound.into())
}

/// Returns true: a console always accepts a line.
pub fn stderr_is_ready() -> bool {
    true
}

/// The source of keys: the console, if standard input is one.
#[derive(Debug)]
pub struct Keyboard(());

impl Keyboard {
    /// Opens the source of keys.
    ///
    /// # Errors
    /// Standard input is not a console.
    pub fn open() -> io::Result<Keyboard> {
        use std::io::IsTerminal;
        if io::stdin().is_terminal() { Ok(Keyboard(())) } else { Err(ErrorKind::NotFound.into()) }
    }

    /// Waits until there is input, or until `limit` has passed.
    ///
    /// # Errors
    /// The console is gone.
    pub fn wait(&self, limit: Span) -> io::Result<()> {
        let milliseconds = (limit.0.max(0) / 1_000_000).min(i32::MAX.into()) as u32;
        // SAFETY: the handle is that of standard input, which this program does not close.
        let waited = unsafe { threads::WaitForSingleObject(io::stdin().as_raw_handle(), milliseconds) };
        if waited == WAIT_FAILED { Err(last_error()) } else { Ok(()) }
    }
}

static HANDLER: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Called by the system, on a thread of its own. Returns 1: the event is handled.
unsafe extern "system" fn handle(_event: u32) -> i32 {
    if let Some(handler) = HANDLER.get() {
        handler();
    }
    1
}

/// Calls `handler`, on a thread of its own, when the user presses Ctrl-C, or closes the window or the session. Only the
/// first handler of a process counts.
///
/// # Errors
/// Errors of the system.
pub fn on_interrupt(handler: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    let _ = HANDLER.set(Box::new(handler));
    // SAFETY: the function lives as long as the process.
    let set = unsafe { SetConsoleCtrlHandler(Some(handle), 1) };
    if set == 0 { Err(last_error()) } else { Ok(()) }
}
