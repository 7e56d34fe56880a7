package Smokeping::probes::Jitlat;

=head1 301 Moved Permanently

This is a Smokeping probe module. Please use the command

C<smokeping -man Smokeping::probes::Jitlat>

to view the documentation or the command

C<smokeping -makepod Smokeping::probes::Jitlat>

to generate the POD document.

=cut

use strict;
use base qw(Smokeping::probes::basefork);

# Column of `jitlat ping --csv` for each value of the variable metric.
my %COLUMN = (
	rtt => 'round_trip_ns',
	up => 'there_ns',
	down => 'back_ns',
	jitter => 'pdv_ns',
);

sub pod_hash {
	return {
		name => <<DOC,
Smokeping::probes::Jitlat - round trips, one-way delays and jitter, measured by jitlat
DOC
		description => <<DOC,
Sends a series of requests with C<jitlat ping> to any host that answers one of its protocols: ICMP echo, STAMP, TWAMP, IRTT and
others. The kernel stamps the packets, so that the load of the probing host does not appear as delay.

=head2 NOTES

The protocol icmp needs the capability CAP_NET_RAW: C<setcap cap_net_raw+ep /usr/bin/jitlat>.
DOC
		authors => <<'DOC',
The authors of jitlat
DOC
		see_also => <<'DOC',
L<Smokeping::probes::FPing>, L<Smokeping::probes::IRTT>
DOC
	};
}

sub new ($$$) {
	my $self = shift->SUPER::new(@_);
	# Skipped in a CGI program, which measures nothing.
	unless ($ENV{SERVER_SOFTWARE}) {
		my $binary = $self->{properties}{binary};
		my $version = `'$binary' --version 2>&1`;
		die "ERROR: $binary --version does not print a version of jitlat: $version"
			unless defined $version && $version =~ /^jitlat \d/;
	}
	return $self;
}

sub ProbeDesc ($) {
	my $self = shift;
	return "jitlat: round trips, delays and jitter";
}

sub ProbeUnit ($) {
	return "Seconds";
}

sub probevars ($) {
	my $class = shift;
	return $class->_makevars($class->SUPER::probevars, {
		_mandatory => ['binary'],
		binary => {
			_doc => "The location of the program jitlat.",
			_example => '/usr/bin/jitlat',
			_default => '/usr/bin/jitlat',
			_sub => sub {
				my $binary = shift;
				return "ERROR: jitlat 'binary' $binary is not an executable" unless -f $binary and -x _;
				return undef;
			},
		},
	});
}

sub targetvars ($) {
	my $class = shift;
	return $class->_makevars($class->SUPER::targetvars, {
		protocol => {
			_doc => "The protocol of the requests, as in C<jitlat ping --proto>.",
			_example => 'stamp',
			_default => 'icmp',
			_re => '[a-z]+',
		},
		metric => {
			_doc => <<DOC,
The figure to record: rtt, the round trip; up or down, the delay in one direction, which needs synchronised clocks and a protocol
that reports the far host's times (negative delays count as 0); or jitter, the round trip above the smallest one.
DOC
			_example => 'jitter',
			_default => 'rtt',
			_re => '(' . join('|', sort keys %COLUMN) . ')',
		},
		interval => {
			_doc => <<DOC,
The time between two requests in seconds. All requests together, and the wait for the last answer, must fit into pings times
timeout, after which SmokePing ends the probe.
DOC
			_example => '0.02',
			_default => '0.2',
			_re => '(\d*\.)?\d+',
		},
		wait => {
			_doc => "The time in seconds after which a missing answer counts as lost.",
			_example => '2',
			_default => '2',
			_re => '(\d*\.)?\d+',
		},
		dscp => {
			_doc => "The DSCP of the requests: a number, or a name such as EF.",
			_example => 'EF',
			_re => '[A-Za-z0-9]+',
		},
		options => {
			_doc => "Further options of C<jitlat ping>, separated by blanks.",
			_example => '--stamp-port 8620',
		},
	});
}

# Returns the measured times in seconds, sorted; lost requests are missing.
sub pingone ($$) {
	my ($self, $target) = @_;
	my $vars = $target->{vars};
	my @command = (
		$self->{properties}{binary}, 'ping', $target->{addr},
		'--proto', $vars->{protocol},
		'-n', $self->pings($target),
		'-i', $vars->{interval},
		'-W', $vars->{wait} . 's',
		'--no-log', '--csv', '-', '--log-level', 'error',
	);
	push @command, '-D', $vars->{dscp} if defined $vars->{dscp};
	push @command, split(' ', $vars->{options}) if defined $vars->{options};
	$self->do_debug("Executing @command");
	my $rows;
	unless (open($rows, '-|', @command)) {
		$self->do_log("cannot run $command[0]: $!");
		return ();
	}
	my $column = $COLUMN{$vars->{metric}};
	my $names = <$rows>;
	# Without any answer there are no rows.
	unless (defined $names) {
		close $rows;
		return ();
	}
	chomp $names;
	my @names = split(/,/, $names);
	my %at = map { $names[$_] => $_ } 0 .. $#names;
	my (@times, $unknown);
	while (my $row = <$rows>) {
		chomp $row;
		my @fields = split(/,/, $row, -1);
		next unless $fields[$at{class}] eq 'accepted';
		my $nanoseconds = $fields[$at{$column}];
		if ($nanoseconds =~ /^-?\d+$/) {
			push @times, $nanoseconds < 0 ? 0 : $nanoseconds / 1e9;
		} else {
			$unknown = 1;
		}
	}
	close $rows;
	$self->do_log("$target->{addr}: $vars->{protocol} does not report $vars->{metric}") if $unknown;
	return map { sprintf '%.9f', $_ } sort { $a <=> $b } @times;
}

1;
